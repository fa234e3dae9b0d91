"""The rule OVL016, exposed-collective."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope.analysis.analysis import diagnose
from tests import kineto_maker as make
from tests.notation import trace_of
from tests.rules import RuleTests, program, top


class TestOvl016(RuleTests):
    code = "OVL016"
    reports = ("collective_exposed",)
    silent = ("collective_beside",)


def test_an_exposed_collective_is_found_and_a_covered_one_is_not(tmp_path: Path) -> None:
    collective = make.kernel(10, 500, stream=20, name="ncclDevKernel_AllReduce_Sum_f32", correlation=1)
    calls = [make.call(0, 3, correlation=1), make.call(4, 3, correlation=2), make.call(8, 3, correlation=3)]
    alone = program(*calls, collective, make.kernel(515, 500, correlation=2))(tmp_path)
    assert (top(alone), alone.findings[0].idle_ns) == ("OVL016", 500_000)
    covered = program(*calls, collective, make.kernel(10, 990, correlation=2))(tmp_path)
    assert covered.healthy


@pytest.mark.parametrize(
    ("name", "kernel", "words"),
    [
        ("DistributedDataParallel.forward", "AllReduce", "bucket_cap_mb"),
        ("FSDP::all_gather", "AllGather", "fully_shard"),
        ("DistributedDataParallel.forward", "SendRecv", "async_op=True"),
        ("model.forward", "AllReduce", "async_op=True"),
        ("DistributedDataParallel.forward", "OneShot", "async_op=True"),
        ("MulBackward0", "AllReduce", "DistributedDataParallel(model)"),
    ],
)
def test_a_collective_s_fix_knows_how_the_program_is_parallel(
    name: str, kernel: str, words: str, tmp_path: Path
) -> None:
    """DDP is not advised to who has it, nor to who does not train; where the kind is not known, what fits all is."""
    trace = trace_of(
        tmp_path,
        f"""
        thread 1: op {name} 0-30 | launch gemm 31-35 -> stream 7: 40-100
                  launch ncclDevKernel_{kernel} 36-39 -> stream 20: 100-400
        """,
    )
    (finding,) = (entry for entry in diagnose(trace).findings if entry.code == "OVL016")
    assert words in finding.fix
