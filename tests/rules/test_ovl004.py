"""The rule OVL004, host-synchronises."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope.diagnosis.catalogue import rule
from overlapscope.diagnosis.finding import Place
from tests import kineto_maker as make
from tests.rules import RuleTests, place, program, top


class TestOvl004(RuleTests):
    code = "OVL004"
    reports = ("explicit_stream_sync", "gemm_copy-pinned-copy-first-blocking-same")
    silent = ("read_after_synchronise", "gemm_copy-pinned-copy-first-non-blocking-same")


def test_a_wait_for_the_device_settles_what_was_held_before(tmp_path: Path) -> None:
    """After the synchronisation the thread would have had no lead anyway: the copy before it is not to blame."""
    found = program(
        make.call(0, 4, correlation=1),
        make.kernel(5, 3000, correlation=1),
        make.call(10, 1000, name="cudaMemcpyAsync", correlation=2),
        make.copy(12, 996, correlation=2),
        make.call(1100, 1920, name="cudaDeviceSynchronize", correlation=3),
        make.call(3500, 4, correlation=4),
        make.kernel(3505, 100, correlation=4),
    )(tmp_path)
    assert top(found) == "OVL004"
    (device,) = found.devices
    assert device.idle_ns("OVL001") == 0


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (place("aten::index", "cudaStreamSynchronize"), "torch.where(mask"),
        (place(None, "cudaDeviceSynchronize"), "no torch.cuda.synchronize()"),
        (place("aten::copy_", "cudaStreamSynchronize"), "non_blocking=True"),
    ],
)
def test_the_fix_fits_the_place(where: Place, words: str) -> None:
    assert words in rule("OVL004").fix_for(where)
