"""The audit of several traces: one answer about all, whom they wait for, and each finding once."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from overlapscope import Audit, audit
from overlapscope.cli.main import app
from overlapscope.fleet.document import summary
from overlapscope.fleet.job import job_of_audits
from tests.golden import same_as_golden
from tests.notation import trace_of

LATE = "thread 1: launch gemm 0-5 -> stream 7: 10-60 | op aten::sort 70-880 | launch gemm 885-890 -> stream 7: 900-950"
EARLY = "thread 1: launch gemm 0-5 -> stream 7: 10-60"


def rank(tmp_path: Path, number: int, text: str, begin: int) -> Audit:
    """A rank that computes, then runs a collective until 1000 us."""
    folder = tmp_path / str(number)
    folder.mkdir()
    collective = f"thread 1: launch ncclDevKernel_AllReduce {begin}-{begin + 5} -> stream 20: {begin + 10}-1000"
    return audit(trace_of(folder, text, collective, distributedInfo={"rank": number}))


def test_the_rank_that_waits_least_is_the_one_that_the_others_wait_for(tmp_path: Path) -> None:
    ranks = rank(tmp_path, 0, EARLY, 70), rank(tmp_path, 1, LATE, 955), rank(tmp_path, 2, EARLY, 70)
    same_as_golden("ranks-one-late", summary(job_of_audits(ranks)))


def test_even_ranks_wait_for_nobody(tmp_path: Path) -> None:
    """And each finding is said once."""
    ranks = [rank(tmp_path, number, EARLY, 70) for number in range(3)]
    same_as_golden("ranks-even", summary(job_of_audits(ranks)))


def test_traces_of_one_rank_are_compared_as_they_are(tmp_path: Path) -> None:
    """Before and after a fix, both are rank 0."""
    audits = [audit(trace_of(tmp_path, text, distributedInfo={"rank": 0})) for text in (EARLY, LATE)]
    job = job_of_audits(audits)
    assert [(member.rank, member.used) for member in job.members] == [(None, True)] * 2
    text = summary(job)
    assert text.startswith("2 traces, ")
    assert re.search(r"median +min +trace +max +trace\n  step +\S+ +\S+ +t\.json +\S+ +t\.json\n", text)


def test_the_command_prints_one_answer_or_each_by_itself(tmp_path: Path) -> None:
    paths = []
    for number in range(2):
        rank(tmp_path, number, EARLY, 70)
        paths.append(str(tmp_path / str(number) / "t.json"))
    together = CliRunner().invoke(app, ["audit", *paths])
    apart = CliRunner().invoke(app, ["audit", *paths, "--per-rank"])
    assert together.stdout.count("OVL016") == 1
    assert "all 2 ranks" in together.stdout
    assert apart.stdout.count("Collectives ran for") == 2
    assert apart.stdout.count("GPU 0 time") == 2
