"""Jobs of which some ranks have no trace, or no whole one: nobody knows whether the others wait for these."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.fleet_ranks import Job, make
from overlapscope import open_fleet
from overlapscope.fleet.absent import Groups, absent
from overlapscope.fleet.clocks import Matched
from overlapscope.fleet.document import summary
from overlapscope.fleet.ranks import TraceInfo, ranks_of
from overlapscope.fleet.reduce import reduce_folder
from overlapscope.fleet.sentences import bad_traces, problems
from tests.golden import same_as_golden
from tests.test_fleet import fleet

CUT, FAILED = "cut", "failed"


def words(text: str) -> str:
    return " ".join(text.split())


def cut_off(trace: Path, *, first: int = 0, last: int = 99, named: bool = True) -> None:
    """Leave of a trace what is of these steps of the profiler, with or without the steps themselves."""
    told = json.loads(gzip.decompress(trace.read_bytes()))
    steps = {event["name"]: event for event in told["traceEvents"] if event["name"].startswith("ProfilerStep")}
    begin = steps.get(f"ProfilerStep#{first}", {"ts": 0})["ts"]
    end = steps.get(f"ProfilerStep#{last + 1}", {"ts": float("inf")})["ts"]
    kept = [event for event in told["traceEvents"] if begin <= event["ts"] < end]
    told["traceEvents"] = [event for event in kept if named or event["name"] not in steps]
    trace.write_bytes(gzip.compress(json.dumps(told).encode(), mtime=0))


@pytest.mark.parametrize(
    ("numbered", "lack", "said"),
    [
        (True, "", "Rank 2 has no trace and may be the one that the others wait for."),
        (False, "", "Rank 2 has no trace and may be the one that the others wait for."),
        (True, CUT, "Rank 2 has no whole trace and may be the one that the others wait for."),
        (True, FAILED, "Rank 2 has no trace and may be the one that the others wait for."),
    ],
)
def test_without_the_trace_of_the_straggler_nothing_is_said_of_waiting(
    tmp_path: Path, numbered: bool, lack: str, said: str
) -> None:
    late, missing = {2: "pageable"}, () if lack else (2,)
    made = Job(4, stragglers=late, missing=missing, cut=(2,) if lack == CUT else (), numbered=numbered)
    make(tmp_path / "job", made)
    if lack == FAILED:
        (tmp_path / "job" / "rank2_trace.json.gz").write_bytes(b"no trace")
    found = open_fleet(fleet(tmp_path / "job", tmp_path / "out"))
    assert said in words(found.summary)
    assert "transfer in collectives" not in found.summary
    assert "No rank is late" not in words(found.summary)
    matched = found.to_pandas("matched")
    unknown = matched[~matched["complete"]]
    assert len(unknown)
    assert unknown["transfer_ns"].isna().all()
    assert matched["complete"].any() == (lack == CUT)  # its first steps are whole


def test_a_job_with_all_traces_knows_who_is_last(tmp_path: Path) -> None:
    make(tmp_path / "job", Job(3, stragglers={2: "pageable"}))
    found = open_fleet(fleet(tmp_path / "job", tmp_path / "out"))
    assert found.to_pandas("matched")["complete"].all()
    same_as_golden("fleet-all-traces", found.summary)


def test_ranks_with_findings_are_counted_of_all_ranks_that_can_have_some(tmp_path: Path) -> None:
    """A damaged trace can have findings and no whole step."""
    make(tmp_path / "job", Job(3))
    (job,) = reduce_folder(fleet(tmp_path / "job", tmp_path / "out"))
    without_steps = replace(job.figures, steps=np.array([3, 3, 0]))
    assert "all 3 ranks" in summary(replace(job, figures=without_steps))


def test_files_that_are_no_ranks_keep_their_names_and_the_error_of_clocks(tmp_path: Path) -> None:
    make(tmp_path / "job", Job(3, stragglers={2: "pageable"}))
    (job,) = reduce_folder(fleet(tmp_path / "job", tmp_path / "out"))
    files = tuple(replace(each, rank=None, source=f"job/abc{each.rank}.json.gz") for each in job.members)
    text = words(summary(replace(job, ranks=replace(job.ranks, members=files))))
    assert "abc2.json.gz is 4.9" in text
    assert "Clocks aligned on the ends of 9 matched collectives, within" in text


def test_a_long_problem_is_cut_with_a_sign_and_several_ranks_are_in_the_plural(tmp_path: Path) -> None:
    make(tmp_path / "job", Job(6, missing=(2, 3)))
    (job,) = reduce_folder(fleet(tmp_path / "job", tmp_path / "out"))
    assert "no trace of ranks 2-3" in list(problems(job))
    without_steps = replace(job.figures, steps=np.array([3, 3, 0, 3]))
    assert "no whole step of rank 4: in no average" in list(problems(replace(job, figures=without_steps)))
    damaged = job.traces.assign(status="damaged", lost="lost " * 90)
    first = next(problems(replace(job, traces=damaged)))
    assert len(first) <= 450
    assert first.endswith(("...", "…"))


def test_a_missing_rank_is_in_the_collectives_of_its_process_groups() -> None:
    """Ranks 0, 1 and 2 of 4, in the groups of 0 and 1, of 2 and 3, and in two whose ranks are not all recorded."""
    ranks = ranks_of([TraceInfo(f"rank{rank}.json", True, rank, 4, None, ((1, 0),)) for rank in range(3)])
    member, zeros = np.array([0, 1] * 4), np.zeros(8, np.int64)
    rows = Matched(np.repeat(np.arange(4), 2), member, zeros, zeros, zeros, 4, 3)
    groups = ["1 [0, 1]", "1 [2, 3]", "0 [0, 1, ..., 3]", ""]
    assert absent(ranks, (), rows, Groups(groups)).complete.tolist() == [True, False, False, False]
    assert absent(ranks, (), rows, Groups(groups)).untraced == (3,)
    none = absent(ranks, (), rows, Groups(["1 [0, 1]"] * 4))
    assert (none.ranks, none.complete.tolist()) == ((), [True] * 4)


def test_a_damaged_rank_is_missing_where_it_has_no_row() -> None:
    ranks = ranks_of([TraceInfo(f"rank{rank}.json", True, rank, 3, None, ((1, 0),)) for rank in range(3)])
    zeros = np.zeros(5, np.int64)
    rows = Matched(np.array([0, 0, 0, 1, 1]), np.array([0, 1, 2, 0, 1]), zeros, zeros, zeros, 2, 3)
    found = absent(ranks, {2}, rows, Groups(["0 [0, 1, 2]"] * 2))
    assert (found.cut, found.untraced, found.complete.tolist()) == ((2,), (), [True, False])


def test_without_a_world_size_a_process_group_names_missing_ranks() -> None:
    ranks = ranks_of([TraceInfo(f"rank{rank}.json", True, None, None, None, ((1, 0),)) for rank in range(2)])
    zeros = np.zeros(2, np.int64)
    rows = Matched(zeros, np.array([0, 1]), zeros, zeros, zeros, 1, 2)
    assert absent(ranks, (), rows, Groups(["0 [0, 1, 2]"])).ranks == (2,)


@pytest.mark.parametrize("named", [True, False])
def test_a_rank_that_begins_to_record_later_is_not_late(tmp_path: Path, named: bool) -> None:
    for path in make(tmp_path / "job", Job(4, steps=5, stragglers={2: "pageable"})):
        cut_off(path, first=5 if "rank1" in path.name else 0, named=named)
    found = open_fleet(fleet(tmp_path / "job", tmp_path / "out"))
    (late,) = found.to_pandas("stragglers").to_dict("records")
    assert (late["rank"], late["saving_steps"]) == (2, 3 if named else 1)
    if named:
        assert late["saving_ns"] / 3 == pytest.approx(4_910_000, rel=0.01)
        same_as_golden("fleet-later-begin", found.summary)


def test_waiting_is_not_transfer_where_the_late_rank_has_ended_its_record(tmp_path: Path) -> None:
    for path in make(tmp_path / "job", Job(4, steps=5, stragglers={2: "pageable"})):
        cut_off(path, last=5 if "rank2" in path.name else 99)
    found = open_fleet(fleet(tmp_path / "job", tmp_path / "out"))
    matched = found.to_pandas("matched").set_index("step").sort_index()
    assert matched.loc[:5, "complete"].all()
    assert not matched.loc[6:, "complete"].any()
    assert matched.loc[6:, "transfer_ns"].isna().all()
    same_as_golden("fleet-earlier-end", found.summary)


def test_without_steps_a_record_that_ends_early_is_not_complete(tmp_path: Path) -> None:
    for path in make(tmp_path / "job", Job(4, steps=5, stragglers={2: "pageable"})):
        cut_off(path, last=5 if "rank2" in path.name else 99, named=False)
    found = open_fleet(fleet(tmp_path / "job", tmp_path / "out"))
    matched = found.to_pandas("matched")
    assert matched["complete"].tolist() == (matched["ranks"] == 4).tolist()
    assert 0 < matched["complete"].sum() < len(matched)
    same_as_golden("fleet-without-steps", found.summary)


def test_a_record_that_ends_early_concerns_its_process_groups_only(tmp_path: Path) -> None:
    """Without steps, and with ranks in groups of two: the end of rank 3 says nothing about ranks 0 and 1."""
    for path in make(tmp_path / "job", Job(4, steps=5)):
        pair = "[0, 1]" if path.name[4] in "01" else "[2, 3]"
        told = gzip.decompress(path.read_bytes()).replace(b"[0, 1, 2, 3]", pair.encode())
        path.write_bytes(gzip.compress(told, mtime=0))
        cut_off(path, last=5 if "rank3" in path.name else 99, named=False)
    matched = open_fleet(fleet(tmp_path / "job", tmp_path / "out")).to_pandas("matched")
    of_first = matched["group"].str.contains("0, 1")
    assert of_first.any()
    assert matched.loc[of_first, "complete"].all()


def test_a_reason_that_several_traces_share_is_said_once() -> None:
    rows = [{"status": "failed", "error": "no such file", "source": f"{name}.json", "rank": None} for name in "ab"]
    rows.append({"status": "failed", "error": "empty", "source": "c.json", "rank": 2})
    assert list(bad_traces(rows)) == [
        "a.json, b.json cannot be used: no such file",
        "c.json (rank 2) cannot be used: empty",
    ]
