"""Reads of one result are one copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import what_if
from overlapscope.model.trace import Trace
from overlapscope.whatif.prediction import Prediction
from tests import kineto_maker as make
from tests.notation import trace_of

_READ_US = 20.0
_TINY = "vectorized_elementwise_kernel"


def loop(tmp_path: Path, kernels: list[str]) -> Trace:
    """A loop of reads: before each one kernel of 2 us that the host takes 10 us to launch, then the read with 20 us."""
    events, at = [], 0.0
    for number, name in enumerate(kernels):
        first = 10 * number + 1
        events += [
            make.call(at, 5, correlation=first),
            make.kernel(at + 6, 2, name=name, correlation=first),
            make.cpu_op("aten::item", at + 10, _READ_US),
            make.call(at + 12, 4, name="cudaMemcpyAsync", correlation=first + 1),
            make.copy(at + 18, 1, kinds="DtoH (Device -> Pageable)", size=4, stream=7, correlation=first + 1),
            make.call(at + 17, 11, name="cudaStreamSynchronize", correlation=first + 2),
        ]
        at += 10 + _READ_US
    events += [make.call(at, 5, correlation=9001), make.kernel(at + 6, 2, correlation=9001)]
    return trace_of(tmp_path, *events)


def found(trace: Trace) -> Prediction:
    return what_if(trace, ["read-once"])


def waits(prediction: Prediction) -> int:
    """The synchronisations that still take time."""
    calls = prediction.after.api_calls
    names = prediction.after.names.decode(calls.name_id)
    return sum(
        name == "cudaStreamSynchronize" and took > 0 for name, took in zip(names, calls.duration_ns, strict=True)
    )


def test_only_the_first_read_is_waited_for(tmp_path: Path) -> None:
    prediction = found(loop(tmp_path, [_TINY] * 20))
    assert waits(prediction) == 1
    assert any("1 read instead of 20" in text for text in prediction.assumptions)
    assert not any("needs none of" in text for text in prediction.assumptions)


def test_operators_that_only_cut_values_go_with_the_reads(tmp_path: Path) -> None:
    """Of a tiny kernel's launch stays what the host did besides; a matrix product stays."""
    cut, computed = (found(loop(tmp_path, [name] * 20)) for name in (_TINY, "gemm"))
    kernels = cut.after.kernels.duration_ns
    assert (kernels == 0).sum() == 19
    assert (computed.after.kernels.duration_ns == 2_000).all()
    assert cut.predicted_ns < computed.predicted_ns < cut.measured_ns


def test_a_new_result_is_read_anew(tmp_path: Path) -> None:
    """Four experts in each of six blocks; each block computes its choice first."""
    prediction = found(loop(tmp_path, ["topk" if number % 12 == 0 else "gemm" for number in range(72)]))
    assert waits(prediction) == 6


@pytest.mark.parametrize("reads", [1, 5])
def test_a_few_reads_are_no_loop(tmp_path: Path, reads: int) -> None:
    prediction = found(loop(tmp_path, [_TINY] * reads))
    assert waits(prediction) == reads
    assert prediction.predicted_ns == prediction.simulated_ns
