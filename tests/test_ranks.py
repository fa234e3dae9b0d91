"""Several traces: one table, each finding once, and whom the others wait for."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from overlapscope import Audit, audit
from overlapscope.cli.main import app
from overlapscope.report.ranks import rank_names, shared_findings, waited_for
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
    audits = [rank(tmp_path, 0, EARLY, 70), rank(tmp_path, 1, LATE, 955), rank(tmp_path, 2, EARLY, 70)]
    names = rank_names(audits)
    assert names == ["rank 0", "rank 1", "rank 2"]
    text = str(waited_for(list(zip(names, audits, strict=True)))[0])
    assert text.startswith("rank 1 is in exposed collectives for ")
    assert "they wait for it. Its first finding: OVL008 host-late: host-work." in text


def test_even_ranks_wait_for_nobody(tmp_path: Path) -> None:
    audits = [rank(tmp_path, number, EARLY, 70) for number in range(3)]
    assert waited_for(list(zip(rank_names(audits), audits, strict=True))) == []


def test_each_finding_is_said_once(tmp_path: Path) -> None:
    audits = [rank(tmp_path, number, EARLY, 70) for number in range(3)]
    (shared,) = shared_findings(list(zip(rank_names(audits), audits, strict=True)))
    assert shared.worst.code == "OVL016"
    assert [name for name, _ in shared.idle_ns] == ["rank 0", "rank 1", "rank 2"]


def test_the_command_prints_one_table_or_each_by_itself(tmp_path: Path) -> None:
    paths = []
    for number in range(2):
        rank(tmp_path, number, EARLY, 70)
        paths.append(str(tmp_path / str(number) / "t.json"))
    together = CliRunner().invoke(app, ["audit", *paths])
    apart = CliRunner().invoke(app, ["audit", *paths, "--per-rank"])
    assert together.stdout.count("Collectives ran for") == 1
    assert "2 of 2 traces" in together.stdout
    assert apart.stdout.count("Collectives ran for") == 2
    assert apart.stdout.count("GPU 0 time") == 2
