"""How fast pinned copies are: by the trace's own, else by the GPU's link; what neither tells is not guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import what_if
from tests import kineto_maker as make
from tests.notation import trace_of


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("NVIDIA A100-SXM4-80GB", "PCIe 4 x16"),
        ("Tesla V100-SXM2-16GB", "PCIe 3 x16"),
        ("Quadro RTX 6000", "PCIe 3 x16"),
        ("NVIDIA RTX 6000 Ada Generation", "PCIe 4 x16"),
        ("NVIDIA A2", "PCIe 4 x8"),
        ("NVIDIA GeForce RTX 4060 Ti", "PCIe 4 x8"),
        ("AMD Instinct MI300X", "PCIe 5 x16"),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
    ],
)
def test_the_usual_link_of_a_gpu_goes_by_its_name(tmp_path: Path, name: str, link: str | None) -> None:
    """As their data sheets have it; links that a name does not tell are not guessed."""
    text = "copy 1MB pageable HtoD 0-900 -> stream 13: 2-802"
    trace = trace_of(tmp_path, text, deviceProperties=[{"id": 0, "name": name}])
    found = what_if(trace, ["pin"]).assumptions
    assert any(link in text for text in found) if link else not any("PCIe" in text for text in found)


def test_a_tiny_pinned_copy_tells_nothing_of_a_large_one(tmp_path: Path) -> None:
    text = """
        thread 1: copy 8B pinned HtoD 0-4 -> stream 13: 6-8 | copy 55MB pageable HtoD 20-5_020 -> stream 13: 24-5_014
    """
    trace = trace_of(tmp_path, text, **make.H200)
    assert what_if(trace, ["pin"]).after.copies.duration_ns[1] == pytest.approx(1_000_000, rel=0.02)


def test_a_large_pinned_copy_tells_what_others_take(tmp_path: Path) -> None:
    """Half as large: half as long, but for what a tiny one takes."""
    text = """
        thread 1: copy 20MB pinned HtoD 0-4 -> stream 13: 6-2_006
                  copy 40MB pageable HtoD 2_020-9_020 -> stream 13: 2_024-9_014
                  copy 10MB pageable HtoD 9_030-11_030 -> stream 13: 9_034-11_024
    """
    found = what_if(trace_of(tmp_path, text, **make.H200), ["pin"])
    assert found.after.copies.duration_ns[1:].tolist() == [4_000_000, pytest.approx(1_000_000, abs=1_500)]
    assert any("pinned copies of this trace" in text for text in found.assumptions)


def test_without_a_known_link_copies_keep_their_length(tmp_path: Path) -> None:
    found = what_if(trace_of(tmp_path, "copy 55MB pageable HtoD 0-1_000 -> stream 13: 2-998"), ["pin"])
    assert found.after.copies.duration_ns.tolist() == [996_000]
    assert any("no pinned bandwidth is known" in text for text in found.assumptions)
