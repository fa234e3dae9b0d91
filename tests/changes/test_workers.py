"""Batches of worker processes: when that pays, and when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import Trace, what_if
from overlapscope.analysis.analysis import diagnose
from overlapscope.errors import ChangeNotUnderstood
from overlapscope.whatif.catalogue import parse
from tests.notation import trace_of
from tests.rules.traces import repeated

STEPS = 24


def loop(tmp_path: Path, made_us: int, loader: str = "_SingleProcessDataLoaderIter") -> Trace:
    """A batch is made, one tensor of it is copied, and a kernel runs for 2 ms."""
    step = f"thread 1: op enumerate(DataLoader)#{loader}.__next__ 10-{10 + made_us}"
    at = made_us + 20
    step += f" | copy 64KiB pinned HtoD {at}-{at + 5} -> stream 7: {at + 8}-{at + 12}"
    step += f" | launch {at + 20}-{at + 25} -> stream 7: {at + 28}-{at + 2_028} | sync {at + 30}-{at + 2_030}"
    return trace_of(tmp_path, repeated(STEPS, step, made_us + 2_100))


@pytest.mark.parametrize(("workers", "period_us"), [(2, 10_000), (4, 5_000), (8, 3_400), (16, 3_400)])
def test_a_step_takes_what_a_worker_or_the_loop_takes(workers: int, period_us: float, tmp_path: Path) -> None:
    """Batches of 20 ms: N workers make one in 20/N ms; the loop takes 1.3 ms for one, and 2.1 ms for its kernel."""
    found = what_if(loop(tmp_path, 20_000), [f"workers={workers}"])
    assert found.predicted_ns / STEPS == pytest.approx(period_us * 1_000, rel=0.12)
    assert any("costs the loop 1.3 ms, making it took 20 ms" in text for text in found.assumptions)


def test_tiny_batches_get_slower(tmp_path: Path) -> None:
    found = what_if(loop(tmp_path, 500), ["workers=8"])
    assert found.saving_ns < 0
    assert any("the loop gets slower" in text for text in found.assumptions)
    assert found.low_ns < found.predicted_ns < found.high_ns


def test_workers_that_are_there_stay(tmp_path: Path) -> None:
    found = what_if(loop(tmp_path, 20_000, "_MultiProcessingDataLoaderIter"), ["workers=8"])
    assert found.saving_ns == 0


@pytest.mark.parametrize(("made_us", "change", "fix"), [(20_000, "workers=8", "num_workers=8"), (2_600, None, "once")])
def test_the_finding_has_it_where_it_pays(made_us: int, change: str | None, fix: str, tmp_path: Path) -> None:
    findings = diagnose(loop(tmp_path, made_us)).findings
    (finding,) = (each for each in findings if each.kind == "data-loading")
    assert finding.change == change
    assert fix in finding.fix
    assert finding.bound is not None


@pytest.mark.parametrize("text", ["workers=0", "workers=1.5", "workers=nan"])
def test_numbers_that_make_no_sense(text: str) -> None:
    with pytest.raises(ChangeNotUnderstood):
        parse(text)
