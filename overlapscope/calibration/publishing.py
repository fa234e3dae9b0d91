"""What of a calibration may be published."""

from __future__ import annotations

from typing import Any

from overlapscope.calibration.reading import from_json
from overlapscope.calibration.writing import to_json


def published(data: Any) -> dict[str, Any] | None:
    """What is understood of the ``data`` in a trace, in this version's keys: nothing else gets through.

    All of it is numbers but the names of GPUs, versions, directions, kinds of memory, and of DataLoaders their places
    and the classes of their batches, which may be any text: hide in them what is to be hidden.

    Returns:
        None where it is no calibration.
    """
    calibration = from_json(data)
    return None if calibration is None else to_json(calibration)
