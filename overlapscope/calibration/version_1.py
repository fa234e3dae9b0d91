"""Calibrations of the first version, with the keys of the second."""

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
        "post_staging": [_post_staging(row) for row in listing(data.get("after_copies"))],
        "issue_unprofiled": issue.get("unprofiled"),
        "issue_profiled": issue.get("profiled"),
        "recorded": _renamed(steps.get("recorded"), _STEPS),
        "unprofiled": _renamed(steps.get("unprofiled"), _STEPS),
    }


def _post_staging(row: Any) -> dict[str, Any]:
    """A row with lists of times, where the first recordings have a number for one amount of work."""
    row = mapping(row)
    times = {key: row.get(key) for key in ("issue_ns", "usual_ns")}
    return {
        "size_bytes": row.get("size_bytes"),
        **{key: value if isinstance(value, list) else [value] for key, value in times.items()},
    }


def _renamed(row: Any, names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in mapping(row).items()}
