"""The rule OVL005, scalar-read."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope.diagnosis.catalogue import rule
from overlapscope.diagnosis.finding import Diagnosis, Place
from tests import kineto_maker as make
from tests.rules import RuleTests, place, program, top


class TestOvl005(RuleTests):
    code = "OVL005"
    reports = ("item_and_hidden_copies", "scalar_reads-item")
    silent = ("read_after_event", "scalar_reads-item-deferred")


def test_a_backward_thread_is_late_because_the_main_thread_read_a_value(tmp_path: Path) -> None:
    """The main thread reads, hands over, and the other thread launches a millisecond later."""
    events = []
    for number in range(5):
        at, last = 3000 * number, 10 * number
        events += [
            make.call(at, 5, correlation=last + 1),
            make.kernel(at + 6, 1500, correlation=last + 1),
            make.call(at + 10, 1520, name="cudaMemcpyAsync", correlation=last + 2),
            make.copy(at + 1508, 2, kinds="DtoH (Device -> Pageable)", size=4, stream=7, correlation=last + 2),
            make.call(at + 2500, 5, correlation=last + 3, tid=2),
            make.kernel(at + 2506, 400, correlation=last + 3),
        ]
    found = program(*events)(tmp_path)
    assert top(found) == "OVL005"


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((4, 16, 8), "3 scalar reads of 4 to 16 bytes blocked"),
        ((4, 4096, 17), "1 scalar read of 4 bytes and 2 small copies to the host blocked"),
        ((4096, 17, 65536), "3 small copies to the host blocked"),
    ],
)
def test_only_copies_of_a_single_value_are_scalar_reads(tmp_path: Path, sizes: tuple[int, ...], said: str) -> None:
    events = []
    for number, size in enumerate(sizes):
        at, last = 3000 * number, 10 * number
        events += [
            make.call(at, 5, correlation=last + 1),
            make.kernel(at + 6, 1500, correlation=last + 1),
            make.call(at + 10, 1520, name="cudaMemcpyAsync", correlation=last + 2),
            make.copy(at + 1508, 2, kinds="DtoH (Device -> Pageable)", size=size, stream=7, correlation=last + 2),
        ]
    events += [make.call(9000, 5, correlation=90), make.kernel(9006, 400, correlation=90)]
    found = program(*events)(tmp_path)
    assert top(found) == "OVL005"
    assert found.findings[0].message.replace(" (such as item())", "").startswith(said)


def reading(tmp_path: Path, reads: int, launches: int, *further: make.Event, kernel_us: float = 2) -> Diagnosis:
    """Reads with some launches of small kernels between two of them, on a host that is slower than the GPU."""
    events, at, number = list(further), 0.0, 0
    for _ in range(reads):
        for _ in range(launches):
            number += 1
            events += [make.call(at, 5, correlation=number), make.kernel(at + 6, kernel_us, correlation=number)]
            at += 20
        number += 2
        copied = max(at + 6, at - 14 + kernel_us)
        events += [
            make.cpu_op("aten::item", at, copied + 16 - at),
            make.cpu_op("aten::_local_scalar_dense", at + 1, copied + 14 - at),
            make.call(at + 2, 5, name="cudaMemcpyAsync", correlation=number - 1),
            make.copy(copied, 1, kinds="DtoH (Device -> Pageable)", size=4, stream=7, correlation=number - 1),
            make.call(at + 8, copied + 2 - at, name="cudaStreamSynchronize", correlation=number),
        ]
        at = copied + 30
    return program(*events)(tmp_path)


def test_a_loop_of_reads_is_the_cause_and_not_the_launches_between_them(tmp_path: Path) -> None:
    finding = reading(tmp_path, reads=20, launches=5).findings[0]
    assert finding.code == "OVL005"
    assert finding.message.startswith("20 scalar reads (aten::item) of 4 bytes in a loop of 20, each a wait")
    assert finding.evidence["launches_between"] >= 19 * 5
    between = finding.evidence["between_ns"]
    assert isinstance(between, int)
    assert between >= 0.9 * finding.idle_ns


@pytest.mark.parametrize(
    ("reads", "launches", "kernel_us"),
    [(6, 5, 2), (20, 200, 2), (20, 5, 19)],
    ids=["few reads", "many launches between", "the GPU is busy between"],
)
def test_what_is_no_loop_of_reads(tmp_path: Path, reads: int, launches: int, kernel_us: float) -> None:
    for finding in reading(tmp_path, reads, launches, kernel_us=kernel_us).findings:
        assert not finding.evidence.get("launches_between")


def test_one_read_in_each_step_is_no_loop(tmp_path: Path) -> None:
    steps = [make.annotation(f"ProfilerStep#{number}", 150.0 * number - 5, 150) for number in range(21)]
    found = reading(tmp_path, 20, 5, *steps)
    assert top(found) == "OVL008"


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (place("aten::nonzero", "cudaMemcpyAsync"), "torch.where(mask"),
        (place("aten::_local_scalar_dense", "cudaMemcpyAsync"), "total.item() once"),
        (place("aten::_to_copy", "cudaMemcpyAsync"), "instead of value.cpu()"),
        (place(None, "cudaMemcpyFromSymbol"), "cudaMemcpyAsync to pinned"),
    ],
)
def test_the_fix_fits_the_place(where: Place, words: str) -> None:
    assert words in rule("OVL005").fix_for(where)
