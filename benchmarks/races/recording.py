"""Record a step, and what the rules about races say of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from overlapscope import open_trace, record
from overlapscope.analysis.analysis import diagnose

RULES = ("OVL101", "OVL102", "OVL103", "OVL104", "OVL105")


def findings(step: Callable[[], object], path: Path, device: str) -> dict[str, dict[str, Any]]:
    """Record a step into a file; each finding about a race in it, by its rule."""
    with record(path, steps=1, unprofiled=0, device=device) as recording:
        recording.run(step)
    found = diagnose(open_trace(path), plan=False).findings
    return {
        each.code: {"confidence": str(each.confidence), "evidence": dict(each.evidence)}
        for each in found
        if each.code in RULES
    }
