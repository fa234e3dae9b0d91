"""The host does not wait for copies: whose waits go, and whose stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import what_if
from tests import kineto_maker as make
from tests.bounds import by_order_ns
from tests.notation import trace_of

READS = {
    "at once": {"copy_start_ns": [20_000], "op_start_ns": [2_040_000]},
    "later": {"copy_start_ns": [20_000], "op_start_ns": [2_060_000]},
    "never": {"copy_start_ns": [], "op_start_ns": []},
    "not known": None,
}


@pytest.mark.parametrize("read", READS)
def test_what_comes_to_the_host_is_waited_for_before_it_is_read(read: str, tmp_path: Path) -> None:
    """A result of 2 ms in a blocking copy, an operator and a launch, and again."""
    trace = trace_of(
        tmp_path,
        """
        thread 1: op aten::copy_ 20-2_032 | copy 1KB pinned DtoH 22-28 -> stream 7: 30-2_030 | stream-sync 29-2_031
                  op aten::detach 2_040-2_042 | launch 2_052-2_056 -> stream 7: 2_057-2_067
                  op aten::neg 2_060-2_062 | launch 2_075-2_079 -> stream 7: 2_080-2_090
        """,
        **make.calibrated(d2h_consumers=READS[read]),
    )
    found = what_if(trace, ["non-blocking"])
    result = found.after.copies.end_ns[0]
    third, fourth = found.after.api_calls.start_ns[-2:]
    if read == "at once":
        assert result + 12_000 == third
    elif read == "later":
        assert third < result == fourth - 15_000
    else:
        assert fourth < result
    unknown = read in {"never", "not known"}
    assert (by_order_ns(found.estimate)[1] > found.predicted_ns) is unknown
    assert any("when the host reads" in text for text in found.assumptions) is unknown
    assert what_if(found.trace, ["non-blocking", "no-scalar-sync"]).predicted_ns <= found.predicted_ns


@pytest.mark.parametrize("change", ["non-blocking", "prefetch"])
def test_a_synchronisation_of_the_program_s_own_may_have_to_stay(change: str, tmp_path: Path) -> None:
    """Four times a kernel of 5 ms, an asynchronous copy of 1 ms, a synchronisation of the GPU, 5 ms of host work."""
    events = []
    for number in range(1, 9, 2):
        begin = 5_500 * (number - 1)
        events += [
            make.call(begin, 4, correlation=number),
            make.kernel(begin + 10, 5_000, correlation=number),
            make.call(begin + 5, 4, name="cudaMemcpyAsync", correlation=number + 1),
            make.copy(begin + 5_011, 1_000, correlation=number + 1, **make.TO_GPU),
            make.call(begin + 10, 6_004, name="cudaDeviceSynchronize", correlation=100 + number),
        ]
    found = what_if(trace_of(tmp_path, *events), [change])
    assert by_order_ns(found.estimate)[0] == found.predicted_ns < found.simulated_ns - 10_000_000
    assert by_order_ns(found.estimate)[1] >= 4 * 5_000_000 + 3 * 4_900_000, "kernels, and host work that waits for them"
    assert any("taken to be there for the copy" in text for text in found.assumptions)


def test_the_program_s_own_wait_for_a_result_stays(tmp_path: Path) -> None:
    """An asynchronous copy to the host, then cudaDeviceSynchronize: as it should be; non-blocking changes nothing."""
    text = """
        thread 1: copy 1KB pinned DtoH 0-4 -> stream 7: 6-5_006 | sync 10-5_008
                  launch 5_100-5_104 -> stream 7: 5_110-5_210
    """
    found = what_if(trace_of(tmp_path, text), ["non-blocking"])
    assert found.predicted_ns == found.simulated_ns
