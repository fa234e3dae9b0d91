"""A calibration as JSON-ready data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from overlapscope.calibration.schema import SCHEMA, Calibration


def to_json(calibration: Calibration) -> dict[str, Any]:
    """JSON-ready data for a trace, with the key ``schema``: objects, lists, texts and whole numbers."""
    return {"schema": SCHEMA, **plain(calibration)}


def plain(value: Any) -> Any:
    """JSON-ready data of anything that a calibration has: fields by name, but for those that are None."""
    if is_dataclass(value):
        data = {each.name: plain(getattr(value, each.name)) for each in fields(value)}
        return {name: each for name, each in data.items() if each is not None}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value
