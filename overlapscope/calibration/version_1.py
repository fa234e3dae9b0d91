"""Calibrations of the first version, with the keys of the second.

The first also knew ``after_copies``, how much slower the host is after it staged a copy, which is not read any more.
"""

from __future__ import annotations

from typing import Any

from overlapscope.calibration.values import listing, mapping

SCHEMA_1 = "overlapscope.recording/1"
_SAME = ("versions", "devices", "copies")
_RENAMED = {"both_ways": "duplex", "touches": "copy_consumers", "reads": "d2h_consumers"}
_PIECE = {"gather_ns": "pack_ns", "warm_gather_ns": "warm_pack_ns"}
_STEPS = {"steps": "count"}


def upgraded(data: dict[str, Any]) -> dict[str, Any]:
    """``data`` of the first version as the second has it; what is damaged stays so."""
    issue, steps = mapping(data.get("issue")), mapping(data.get("steps"))
    return {
        **{key: data.get(key) for key in _SAME},
        **{new: data.get(old) for old, new in _RENAMED.items()},
        "packing": {
            "pieces": [_renamed(piece, _PIECE) for piece in listing(data.get("gathers"))],
            "start_ns": data.get("gather_start_ns"),
            "view_ns": data.get("view_ns"),
        },
        "issue_unprofiled": issue.get("unprofiled"),
        "issue_profiled": issue.get("profiled"),
        "recorded": _renamed(steps.get("recorded"), _STEPS),
        "unprofiled": _renamed(steps.get("unprofiled"), _STEPS),
    }


def _renamed(row: Any, names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in mapping(row).items()}
