"""A DataLoader that pins its batches pins them one after the other, and hands them over later."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import what_if
from overlapscope.whatif.copy_speeds import PACKING_GB_S
from overlapscope.whatif.pinning import LOADER_GB_S
from tests import kineto_maker as make
from tests.notation import trace_of

BYTES = 48_000_000
PINNING_US = BYTES / LOADER_GB_S / 1e3
INLINE_US = BYTES / PACKING_GB_S / 1e3
COPY_US = BYTES / 55.1 / 1e3
WORKERS, NONE = "_MultiProcessingDataLoaderIter", "_SingleProcessDataLoaderIter"


def loop(batch: str, waits_us: tuple[int, ...], kernel_us: int) -> str:
    """Steps of a copy that blocks for 4 ms and a kernel; the program waits so long for each batch."""
    lines, at = ["thread 1: launch 0-5 -> stream 7: 10-20"], 20
    for wait in waits_us:
        copy = at + wait + 10
        lines.append(
            f"range {batch} {at}-{at + wait} | copy 48MB pageable HtoD {copy}-{copy + 4_000} -> stream 7: "
            f"{copy + 10}-{copy + 3_990} | launch {copy + 4_010}-{copy + 4_015} -> stream 7: "
            f"{copy + 4_020}-{copy + 4_020 + kernel_us} | sync {copy + 4_020}-{copy + 4_030 + kernel_us}"
        )
        at = copy + 4_040 + kernel_us
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("batch", "waits_us", "kernel_us", "step_us", "once_us"),
    [
        ("other work", (50,) * 6, 2_000, COPY_US + 2_000, 0),
        (f"enumerate(DataLoader)#{WORKERS}.__next__", (50,) * 6, 2_000, PINNING_US, 0),
        (f"enumerate(DataLoader)#{WORKERS}.__next__", (50,) * 6, 20_000, COPY_US + 20_000, 0),
        (f"enumerate(DataLoader)#{WORKERS}.__next__", (30_000, *(50,) * 5), 20_000, COPY_US + 20_000, PINNING_US),
        (f"enumerate(DataLoader)#{WORKERS}.__next__", (30_000,) * 6, 20_000, COPY_US + 50_000, PINNING_US),
        (f"enumerate(DataLoader)#{NONE}.__next__", (50,) * 6, 2_000, COPY_US + 2_000 + INLINE_US, 0),
    ],
    ids=["no loader", "it bounds the loop", "it keeps up", "the first is late", "workers are late", "no workers"],
)
def test_a_loader_pins_one_batch_after_the_other(
    batch: str, waits_us: tuple[int, ...], kernel_us: int, step_us: float, once_us: float, tmp_path: Path
) -> None:
    text = loop(batch, waits_us, kernel_us)
    after = what_if(trace_of(tmp_path, text, **make.H200), ["pin"]).after
    kernels = after.kernels.start_ns[1:] / 1e3
    assert (kernels[-1] - kernels[0]) / 5 == pytest.approx(step_us, rel=0.05)
    free = what_if(trace_of(tmp_path, text.replace(batch, "work"), **make.H200), ["pin"]).after
    late_us = (after.kernels.start_ns[1] - free.kernels.start_ns[1]) / 1e3
    assert late_us == pytest.approx(once_us or (INLINE_US if NONE in batch else 0), abs=5)


def test_what_follows_the_first_kernel_is_no_batch(tmp_path: Path) -> None:
    """Weights that are copied in each step are pinned once."""
    text = loop(f"enumerate(DataLoader)#{WORKERS}.__next__", (50,) * 4, 2_000)
    free = what_if(trace_of(tmp_path, text, **make.H200), ["pin"]).predicted_ns
    text = text.replace("| copy 48MB", "| launch 0-0 | copy 48MB")
    lines = [line.replace("launch 0-0", f"launch {_end(line) + 1}-{_end(line) + 3}") for line in text.splitlines()]
    assert what_if(trace_of(tmp_path, "\n".join(lines), **make.H200), ["pin"]).predicted_ns < free / 2


@pytest.mark.parametrize("batch", ["work", f"enumerate(DataLoader)#{WORKERS}.__next__"])
def test_copies_without_a_call_are_of_no_batch(batch: str, tmp_path: Path) -> None:
    lost = make.copy(60, 20)
    trace = trace_of(tmp_path, loop(batch, (50,), 2_000), lost, **make.H200)
    assert what_if(trace, ["pin"]).predicted_ns < what_if(trace, []).predicted_ns


def _end(line: str) -> int:
    """When the batch of a line came; 0 for a line without one."""
    return int(line.split(" | ", maxsplit=1)[0].rpartition("-")[2]) if line.startswith("range") else 0
