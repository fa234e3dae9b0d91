"""What the profiler did for itself, and what it spent on events as far as the trace itself tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import open_trace, what_if
from overlapscope.dependencies.build import build_graph
from overlapscope.model.trace import Trace
from overlapscope.whatif.profiler import Profiled
from tests import kineto_maker as make
from tests.conftest import SAMPLES
from tests.notation import trace_of


def test_the_profiler_s_cost_is_taken_out_of_what_the_host_did() -> None:
    """Six hundred small copies took 14 ms under the profiler and 4.1 without."""
    trace = open_trace(SAMPLES / "pinning_guide-list-pinned-ahead.json.gz")
    found = what_if(trace, [], "pinning_guide")
    assert found.predicted_ns == found.simulated_ns == found.measured_ns
    assert found.unprofiled is not None
    assert found.unprofiled.predicted_ns < 0.4 * found.measured_ns


def test_what_the_profiler_did_for_itself_is_taken_out(tmp_path: Path) -> None:
    """Two buffers, one before the first call and one between two; loading a module is the program's own."""
    trace = trace_of(
        tmp_path,
        """
        thread 1: range step 0-3_000 | overhead 10-510 | launch 600-604 -> stream 7: 610-710 | overhead 700-1_000
                  launch 1_300-1_304 -> stream 7: 1_310-1_410 | sync 1_400-2_900
        """,
        make.overhead(1_050, 200, "Lazy Function Loading"),
    )
    found = what_if(trace, [], "step")
    assert found.simulated_ns == found.measured_ns == 3_000_000
    assert found.unprofiled is not None
    assert found.unprofiled.cost == "in part", "what an event cost stays in"
    assert found.unprofiled.simulated_ns == pytest.approx(3_000_000 - 800_000, abs=5_000)
    assert found.stated is found
    assert found.sentence.endswith("; as recorded, with the profiler's cost."), "a part is no time that a trace carries"
    assert any("only a part is known" in text for text in found.assumptions)


@pytest.mark.parametrize(
    ("before", "after", "gone_us"),
    [(100, 915, 800), (600, 915, 0), (100, 1_300, 0)],
    ids=["waits for it too", "is busy meanwhile", "goes on later"],
)
def test_what_the_profiler_did_is_gone_on_every_thread_that_waited_for_it(
    before: int, after: int, gone_us: float, tmp_path: Path
) -> None:
    """A buffer of 800 us, on whichever thread; one that goes on right after it has waited for it, too.

    Both threads run an operator meanwhile, so that neither waits for the other.
    """
    trace = trace_of(
        tmp_path,
        f"""
        thread 1: launch 0-4 -> stream 7: 10-15 | op aten::add 20-905 | overhead 108-908
                  launch 910-914 -> stream 7: 920-925
        thread 2: launch {before}-{before + 4} -> stream 9: {before + 10}-{before + 15} | op aten::add 20-905
                  launch {after}-{after + 4} -> stream 9: {after + 10}-{after + 15} | launch 2_000-2_004
        """,
    )
    found = what_if(trace, [])
    assert (found.simulated_ns - found.unprofiled.simulated_ns) / 1e3 == pytest.approx(gone_us, abs=2)


def test_without_a_calibration_the_profiler_s_cost_stays_in_and_is_said(tmp_path: Path) -> None:
    found = what_if(trace_of(tmp_path, "launch 0-4 -> stream 7: 5-10"), [])
    assert found.unprofiled is not None
    assert (found.unprofiled.cost, found.unprofiled.predicted_ns) == ("unknown", found.predicted_ns)
    assert any("stays in" in text for text in found.assumptions)
    assert found.sentence.endswith("; as recorded, with the profiler's cost.")


def test_overhead_of_the_profiler_outside_of_the_window_is_not_spoken_of(tmp_path: Path) -> None:
    text = """
        thread 1: launch 600-604 -> stream 7: 610-710 | overhead 800-1_100 | launch 1_300-1_304
                  range step 1_400-1_700 | launch 1_410-1_414 -> stream 7: 1_420-1_520
    """
    found = what_if(trace_of(tmp_path, text), [], "step")
    assert found.unprofiled is not None
    assert found.unprofiled.cost == "unknown"
    assert any("is not known" in text for text in found.assumptions)


def nested(tmp_path: Path, count: int) -> Trace:
    """Operators of 60 us every 100, each with one of 57 us inside it, 2 us after its begin, and a launch in that."""
    steps = "|".join(
        f"op aten::outer {begin}-{begin + 60} | op aten::inner {begin + 2}-{begin + 59} |"
        f"launch {begin + 10}-{begin + 14} -> stream 7: {begin + 20}-{begin + 25}"
        for begin in range(0, 100 * count, 100)
    )
    return trace_of(tmp_path, steps)


def test_what_operators_take_around_others_is_a_part_of_the_profiler_s_cost(tmp_path: Path) -> None:
    """2 us before the inner one begins and 1 after it ends, at least; host-bound: each event costs twice that."""
    found = what_if(nested(tmp_path, 30), [])
    assert found.unprofiled is not None
    assert (found.unprofiled.cost, found.unprofiled.event_ns) == ("in part", pytest.approx(6_000))
    assert found.simulated_ns - found.unprofiled.simulated_ns == pytest.approx(29 * 3 * 6_000, rel=0.02)
    few = what_if(nested(tmp_path, 10), []).unprofiled
    assert few is not None
    assert few.cost == "unknown", "ten tell nothing"


def test_a_simulated_trace_has_nothing_of_the_profiler_s_own(tmp_path: Path) -> None:
    """What programs have too stays."""
    trace = trace_of(
        tmp_path,
        "launch 0-4 -> stream 7: 10-15 | overhead 20-30",
        make.overhead(40, 10, "Driver Compiler"),
    )
    profiled = Profiled.of(build_graph(trace))
    left = profiled.without_overhead.overheads
    assert [trace.names[name] for name in left.name_id.tolist()] == ["Driver Compiler"]
