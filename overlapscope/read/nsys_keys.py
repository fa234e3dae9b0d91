"""Columns without which a table of an Nsight Systems export says too little; no known version lacks one."""

from __future__ import annotations

from collections.abc import Iterable

from overlapscope.errors import UnusableTrace
from overlapscope.model.health import MISSING_COLUMN
from overlapscope.read.log import HealthLog

_TIMES = ("start", "end")
_WORK = (*_TIMES, "globalPid", "deviceId", "streamId", "correlationId")
_KEYS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": _WORK,
    "CUPTI_ACTIVITY_KIND_MEMCPY": (*_WORK, "copyKind", "bytes"),
    "CUPTI_ACTIVITY_KIND_MEMSET": _WORK,
    "CUPTI_ACTIVITY_KIND_RUNTIME": (*_TIMES, "globalTid", "correlationId", "nameId"),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (*_TIMES, "globalPid", "correlationId"),
    "NVTX_EVENTS": (*_TIMES, "globalTid", "eventType"),
}
CHECKED = frozenset(_KEYS)
"""The tables whose columns are checked."""


def check_keys(path: str, table: str, columns: Iterable[str], rows: int, log: HealthLog) -> None:
    """Count the rows of a table that lacks a column that every version has.

    Raises:
        UnusableTrace: the table lacks its times.
    """
    missing = [key for key in _KEYS.get(table, ()) if key not in columns]
    named = f"no column {' and no column '.join(missing)}"
    if set(missing) & set(_TIMES):
        raise UnusableTrace(
            f"{path}: the table {table} has {named}: this is the layout of no known version; export it again"
        )
    if missing:
        log.damage(f"{MISSING_COLUMN}{table}", rows, f"rows of the table {table}, which has {named}", rows)


def check_strings(columns: Iterable[str], kept: int, log: HealthLog) -> None:
    """Count a missing table of strings, or one of another layout, where rows were read that have their names there."""
    if kept and not {"id", "value"} <= set(columns):
        log.damage(
            f"{MISSING_COLUMN}StringIds", 1, "missing table: StringIds, with the names of kernels, calls and ranges"
        )
