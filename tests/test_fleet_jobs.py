"""Which jobs a set of traces is of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.fleet_ranks import Job, make
from overlapscope import open_fleet
from overlapscope.fleet.jobs import FOLDER, HOST, NAME, RANK, TIME, WORLD_SIZE, jobs_of
from overlapscope.fleet.ranks import TraceInfo
from overlapscope.fleet.sentences import separation, title
from tests.golden import same_as_golden
from tests.test_fleet import fleet

SECOND = 10**9
MIDNIGHT = 1_700_000_000 * SECOND


def run(
    ranks: Sequence[int], at: float = 0, name: str = "rank{}.json", pid: int = 100, world: int | None = 4
) -> list[TraceInfo]:
    """Traces of ranks that are recorded for a second, from so many seconds on, with collectives of their program."""
    begin = MIDNIGHT + int(at * SECOND)
    return [
        TraceInfo(
            name.format(rank),
            usable=True,
            recorded_rank=rank,
            world_size=world,
            gpus=8,
            processes=((pid + rank, rank),),
            content=f"{name} {rank} {at}",
            start_ns=begin + rank,
            end_ns=begin + SECOND,
            collectives=frozenset(range(10)),
        )
        for rank in ranks
    ]


def sizes(traces: list[TraceInfo]) -> list[tuple[int, tuple[str, ...]]]:
    return [(len(job.traces), job.by) for job in jobs_of(traces)]


def test_jobs_of_different_sizes() -> None:
    failed = TraceInfo("b/rank3.json", False, None, None, None, ())
    traces = [*run(range(4), name="a/rank{}.json"), *run(range(3), name="b/rank{}.json", world=8), failed]
    assert sizes(traces) == [(4, (WORLD_SIZE,)), (4, (WORLD_SIZE,))]
    assert [job.name for job in jobs_of(traces)] == ["world size 4", "world size 8"]
    assert 7 in jobs_of(traces)[1].traces


def test_one_job_recorded_twice() -> None:
    first, second = run(range(4)), run(range(1, 4), at=5, name="again{}.json")
    assert sizes(first + second) == [(4, (TIME,)), (3, (TIME,))]
    assert jobs_of(first + second)[1].name == "recorded on 2023-11-14 at 22:13:25 UTC"


@pytest.mark.parametrize(
    ("name", "by"), [("b/rank{}.json", FOLDER), ("a/test-rank{}.json", NAME), ("a/rank{}/test.json", NAME)]
)
def test_jobs_that_run_at_the_same_time(name: str, by: str) -> None:
    """Ranks of other processes, which a folder or a file's name tells apart."""
    one = run(range(4), name="a/rank{}/train.json" if name.endswith("/test.json") else "a/rank{}.json")
    assert sizes(one + run(range(4), at=0.1, name=name, pid=900)) == [(4, (by,)), (4, (by,))]


def test_jobs_on_different_hosts() -> None:
    name = "{}_{{}}.1694128201545.pt.trace.json"
    assert sizes(run(range(4), name=name.format("a")) + run(range(4), at=0.1, name=name.format("b"))) == [
        (4, (HOST,)),
        (4, (HOST,)),
    ]


@pytest.mark.parametrize("twin", [{"start_ns": MIDNIGHT, "end_ns": MIDNIGHT + 9}, {"content": "rank{}.json 0 0"}, {}])
def test_a_rank_twice_is_one_recording(twin: dict[str, object]) -> None:
    """Of the same moment, of the same content, or with nothing that tells it from the other."""
    (again,) = run([0], at=0.5, name="again{}.json")
    assert sizes([*run(range(4)), replace(again, **twin)]) == [(5, ())]  # type: ignore[arg-type]


def test_ranks_without_a_collective_in_common_are_of_two_jobs_where_they_are_far_apart() -> None:
    others = [replace(each, collectives=frozenset([77])) for each in run([2, 3], at=3600)]
    assert sizes(run([0, 1]) + others) == [(2, (TIME,)), (2, (TIME,))]
    assert sizes(run([0, 1]) + run([2, 3], at=3600)) == [(4, ())]  # a clock that is wrong
    assert sizes(run([0, 1]) + [replace(each, collectives=frozenset([77])) for each in run([2, 3], at=30)]) == [(4, ())]


def test_a_trace_of_another_program_is_no_rank_of_the_job() -> None:
    """It names no rank and no world size, and has no collective; one that cannot be used may be a rank."""
    other = replace(run([0], name="inference.json", world=None)[0], recorded_rank=None, collectives=frozenset())
    assert sizes([*run(range(4)), other]) == [(4, (RANK,)), (1, (RANK,))]
    assert sizes([*run(range(4)), replace(other, collectives=frozenset([3]))]) == [(5, ())]
    assert sizes([*run(range(4)), replace(other, usable=False)]) == [(5, ())]
    assert sizes([replace(each, collectives=frozenset()) for each in [*run(range(4)), other]]) == [(5, ())]


def test_jobs_of_several_hosts_in_one_folder_are_said_to_fall_apart() -> None:
    job: Any = SimpleNamespace(by=(HOST,), traces=["a"], ranks=SimpleNamespace(missing=(2, 3)))
    whole: Any = SimpleNamespace(by=(HOST,), traces=["a"], ranks=SimpleNamespace(missing=()))
    assert any("a folder of its own" in line for line in separation([job, job]))
    assert not any("a folder of its own" in line for line in separation([whole, whole]))


def test_traces_that_are_no_ranks_are_together() -> None:
    apart = [replace(run([0], at=at, name=f"{at}.json", world=None)[0], recorded_rank=None) for at in (0, 9000)]
    assert sizes(apart) == [(2, ())]


def test_each_job_has_its_own_answer(tmp_path: Path) -> None:
    make(tmp_path / "jobs" / "a", Job(2, stragglers={1: "pageable"}))
    make(tmp_path / "jobs" / "b", Job(3, stragglers={0: "kernels"}))
    found = open_fleet(fleet(tmp_path / "jobs", tmp_path / "out"))
    same_as_golden("fleet-two-jobs", found.summary)
    assert found.to_pandas("stragglers")[["job", "rank"]].values.tolist() == [[1, 1], [2, 0]]
    assert found.to_pandas("ranks")["job"].tolist() == [1, 1, 2, 2, 2]
    assert set(found.to_pandas("collectives").query("job == 2")["rank"]) == {0, 1, 2}


def test_of_many_jobs_each_late_rank_and_each_bad_trace_is_named(tmp_path: Path) -> None:
    """In the short summaries, and in the lines about the jobs beyond these."""
    for number in range(14):
        odd = {"stragglers": {0: "pageable", 1: "kernels"}, "cut": (4,), "missing": (3,)} if number in {2, 13} else {}
        make(tmp_path / "jobs" / f"{number:02}", Job(6 if odd else 2, seed=number, **odd))  # type: ignore[arg-type]
    (tmp_path / "jobs" / "00" / "rank1_trace.json.gz").write_bytes(b"")
    found = open_fleet(fleet(tmp_path / "jobs", tmp_path / "out"))
    same_as_golden("fleet-many-jobs", found.summary)


def test_jobs_here_and_at_urls_have_titles() -> None:
    jobs: list[Any] = [
        SimpleNamespace(traces={"source": [source]}, number=number, name="world size 2")
        for number, source in enumerate(("/here/a/rank0.json", "s3://there/rank0.json"), 1)
    ]
    assert [title(job, jobs) for job in jobs] == [
        "Job 1 of 2: world size 2, in /here/a",
        "Job 2 of 2: world size 2",
    ]


def on_hosts(folder: Path, hosts: Sequence[str], job: Job, pid: int) -> None:
    """The ranks of a job of two hosts and four GPUs each, under the names that torch gives."""
    for path in make(folder / "made", job):
        rank = int(path.name[4])
        path.rename(folder / f"{hosts[rank // 4]}_{pid + rank}.1694128201545000{rank}.pt.trace.json.gz")


def test_jobs_of_several_hosts_are_told_apart_by_their_collectives(tmp_path: Path) -> None:
    """Both have the same ranks, groups and numbers, at the same time, in one folder."""
    on_hosts(tmp_path / "jobs", ("ash", "elm"), Job(8, seed=1), 100)
    on_hosts(tmp_path / "jobs", ("oak", "fir"), Job(8, seed=2, stragglers={5: "kernels"}), 900)
    found = open_fleet(fleet(tmp_path / "jobs", tmp_path / "out")).to_pandas("ranks")
    hosts = {frozenset(rows["host"]) for _, rows in found.groupby("job")}
    assert hosts == {frozenset({"ash", "elm"}), frozenset({"oak", "fir"})}
    assert found.groupby("job")["rank"].nunique().tolist() == [8, 8]


def test_hosts_whose_collectives_do_not_tell_them_apart_stay_apart() -> None:
    name = "{}_{{}}.1694128201545.pt.trace.json"
    of = {"a": range(2), "b": range(2, 4), "c": range(2), "d": range(2, 4)}
    traces = [
        each
        for host, ranks in of.items()
        for each in run(ranks, at=0.1 if host in "cd" else 0, name=name.format(host), pid=100 * ord(host))
    ]
    assert len(jobs_of(traces, lambda _: {number: 10 * number for number in range(9)})) == 4
    even = {0: 0, 2: 5, 4: 0, 6: 5}  # the first trace of each host: those of one job end together

    def ends(number: int) -> dict[int, int]:
        late = 900_000 if number >= 4 else 0
        return {each: 10**6 * each + even[number] + late * (each % 2) for each in range(9)}

    assert [job.traces for job in jobs_of(traces, ends)] == [(0, 1, 2, 3), (4, 5, 6, 7)]
