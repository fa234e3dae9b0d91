"""The rule OVL018, pinned-allocation."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope.analysis.analysis import diagnose
from overlapscope.diagnosis.catalogue import rule
from overlapscope.diagnosis.finding import Place
from tests.notation import trace_of
from tests.rules import RuleTests, place
from tests.rules.traces import STEP, repeated


class TestOvl018(RuleTests):
    code = "OVL018"
    reports = ("host_allocation", "results_kept", "page_locking-each-step")
    silent = ("results_reused", "page_locking-once", "device_allocation")


@pytest.mark.parametrize(
    ("call", "code"), [("cudaMalloc", "OVL009"), ("cudaHostAlloc", "OVL018"), ("cudaHostUnregister", "OVL018")]
)
def test_page_locking_is_told_from_allocating_on_the_gpu(call: str, code: str, tmp_path: Path) -> None:
    allocating = repeated(6, f"thread 1: {call} 20-3990")
    finding, *_ = diagnose(trace_of(tmp_path, allocating, repeated(6, STEP))).findings
    assert (finding.code, finding.change, finding.evidence["apis"]) == (code, "preallocate", call)
    assert finding.saving_ns is not None
    assert finding.saving_ns > 0.9 * finding.idle_ns


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (place("aten::pin_memory", "cudaHostAlloc"), "pin_memory=True"),
        (place("aten::empty", "cudaHostAlloc"), "reuse it when"),
        (place(None, "cudaHostRegister"), "all of it, once"),
    ],
)
def test_the_fix_fits_the_place(where: Place, words: str) -> None:
    assert words in rule("OVL018").fix_for(where)
