"""Which rank a trace is of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from overlapscope.fleet.ranks import Ranks, TraceInfo, label, named, ranks_of


def found(
    source: str,
    rank: int | None = None,
    world: int | None = None,
    gpus: int | None = None,
    processes: tuple[tuple[int | None, int | None], ...] = ((1, 0),),
    usable: bool = True,
) -> TraceInfo:
    return TraceInfo(source, usable, rank, world, gpus, processes)


def numbers(ranks: Ranks) -> list[tuple[str, int | None, str]]:
    return [(member.source, member.rank, member.origin) for member in ranks.members]


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("profile_traces/iteration_10/rank12_trace.json", 12),
        ("rank-3.json.gz", 3),
        ("rank_7.1694128201557.pt.trace.json.gz", 7),
        ("worker0.pt.trace.json", 0),
        ("dp0_pp0_tp1_dcp0_ep1_rank1.177.pt.trace.json.gz", 1),
        ("franklin7.json", None),
        ("node-3_4711.1694128201545.pt.trace.json.gz", None),
    ],
)
def test_a_rank_in_a_name(name: str, rank: int | None) -> None:
    assert named(name).rank == rank


def test_content_comes_before_the_name() -> None:
    ranks = ranks_of([found("rank5.json", rank=1), found("rank0.json")])
    assert numbers(ranks) == [("rank0.json", 0, "name"), ("rank5.json", 1, "content")]


def test_tensor_and_data_parallel_numbers_give_ranks_in_their_order() -> None:
    names = [f"17-TP-{tp}-DP-{dp}.trace.json.gz" for dp in (1, 0) for tp in (1, 0)]
    ranks = ranks_of([found(name) for name in names])
    assert [member.source[3:12] for member in ranks.members] == ["TP-0-DP-0", "TP-1-DP-0", "TP-0-DP-1", "TP-1-DP-1"]
    assert [member.rank for member in ranks.members] == [0, 1, 2, 3]


def test_a_rank_that_counts_within_a_replica_is_none_of_the_job() -> None:
    """As vLLM writes it, whose every data-parallel replica has ranks from 0 on."""
    names = [f"dp{dp}_pp0_tp{tp}_dcp0_ep0_rank{tp}.17.pt.trace.json.gz" for dp in (1, 0) for tp in (1, 0)]
    ranks = ranks_of([found(name, rank=number % 2) for number, name in enumerate(names)])
    assert [member.source[:11] for member in ranks.members] == [
        "dp0_pp0_tp0",
        "dp0_pp0_tp1",
        "dp1_pp0_tp0",
        "dp1_pp0_tp1",
    ]
    assert [member.rank for member in ranks.members] == [0, 1, 2, 3]
    twice = ranks_of([found(f"{folder}/{names[0]}", rank=0) for folder in "ab"])
    assert list(twice.twice) == [0]


def test_hosts_and_gpus_give_the_order_where_nothing_else_does() -> None:
    names = [
        (f"{host}_{pid}.1694128201545.pt.trace.json", gpu) for host, pid, gpu in (("b", 1, 0), ("a", 9, 0), ("a", 3, 1))
    ]
    ranks = ranks_of([found(name, processes=((1, gpu),)) for name, gpu in names])
    assert [(member.host, member.device, member.rank) for member in ranks.members] == [
        ("a", 0, 0),
        ("a", 1, 1),
        ("b", 0, 2),
    ]
    assert {member.origin for member in ranks.members} == {"order"}


def test_several_ranks_in_one_file() -> None:
    ranks = ranks_of([found("both.sqlite", processes=((20, 1), (10, 0)))])
    assert [(member.process, member.rank) for member in ranks.members] == [(10, 0), (20, 1)]


def test_unrelated_traces_have_no_rank() -> None:
    ranks = ranks_of([found("a.json"), found("b.json")])
    assert [member.rank for member in ranks.members] == [None, None]
    assert ranks.missing == ()
    assert label(ranks.members[0]) == "a.json"


def test_missing_and_duplicate_ranks() -> None:
    ranks = ranks_of([found("a/rank0.json", world=4), found("b/rank0.json"), found("rank2.json")])
    assert ranks.missing == (1, 3)
    assert ranks.twice == {0: ("a/rank0.json", "b/rank0.json")}
    assert [member.used for member in ranks.members] == [True, False, True]


def test_of_two_traces_of_a_rank_the_usable_one_counts() -> None:
    ranks = ranks_of([found("a/rank0.json", usable=False, processes=()), found("b/rank0.json")])
    assert [(member.source, member.used) for member in ranks.members] == [
        ("b/rank0.json", True),
        ("a/rank0.json", False),
    ]
    assert ranks.missing == ()


@pytest.mark.parametrize("worse", [{"whole": False, "steps": 9}, {"steps": 2, "events": 900}, {"events": 80}])
def test_of_two_traces_of_a_rank_the_whole_one_counts_then_the_longer_one(worse: dict[str, int]) -> None:
    best = replace(found("b/rank0.json"), steps=3, events=90)
    ranks = ranks_of([replace(best, source="a/rank0.json", **worse), best])  # type: ignore[arg-type]
    assert [member.source for member in ranks.members if member.used] == ["b/rank0.json"]


def test_nodes_follow_from_the_gpus_of_each() -> None:
    ranks = ranks_of([found(f"rank{rank}.json", world=16, gpus=8) for rank in (0, 7, 8)])
    assert [member.node for member in ranks.members] == [0, 0, 1]
