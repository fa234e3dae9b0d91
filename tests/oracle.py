"""The same figures, computed the slow and obvious way: JSON or SQL rows, decimals, loops. Shares no code."""

from __future__ import annotations

import gzip
import json
import sqlite3
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

Interval = tuple[int, int]


@dataclass
class Figures:
    """Of one device number, all processes together."""

    kernels: list[Interval] = field(default_factory=list)
    copies: list[Interval] = field(default_factory=list)
    memsets: list[Interval] = field(default_factory=list)
    copy_bytes: int = 0

    @property
    def kernel_busy(self) -> int:
        return length(merged(self.kernels))

    @property
    def copy_busy(self) -> int:
        return length(merged(self.copies))

    @property
    def overlap(self) -> int:
        """Time in both, by inclusion and exclusion: |A| + |B| - |A or B|."""
        return self.kernel_busy + self.copy_busy - length(merged(self.kernels + self.copies))

    @property
    def hidden(self) -> int:
        """Sum over copies of the part under kernels."""
        busy = merged(self.kernels)
        return sum(length(merged(busy)) + (e - s) - length(merged([*busy, (s, e)])) for s, e in self.copies)

    @property
    def idle(self) -> int:
        everything = self.kernels + self.copies + self.memsets
        if not everything:
            return 0
        return max(e for _, e in everything) - min(s for s, e in everything if e > s) - length(merged(everything))


def merged(intervals: list[Interval]) -> list[Interval]:
    result: list[Interval] = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return result


def length(intervals: list[Interval]) -> int:
    return sum(end - start for start, end in intervals)


def figures(path: Path) -> dict[int, Figures]:
    """Figures by device number; ValueError when the file is no trace."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if data.startswith(b"SQLite"):
        return _nsys(data)
    return _kineto(json.loads(data.decode("utf-8", "replace"), strict=False, parse_float=Decimal))


def _kineto(trace: Any) -> dict[int, Figures]:
    events = trace if isinstance(trace, list) else trace.get("traceEvents")
    if not isinstance(events, list):
        raise ValueError("no events")
    result: dict[int, Figures] = defaultdict(Figures)
    for event in events:
        kind = {"kernel": "kernels", "gpu_memcpy": "copies", "memcpy": "copies", "gpu_memset": "memsets"}
        name = kind.get(str(event.get("cat", "")).lower(), "memsets" if event.get("cat") == "Memset" else None)
        if event.get("ph") != "X" or name is None:
            continue
        args = event.get("args") or {}
        device = args.get("device", args.get("inDevice", event["pid"]))
        start = int(Decimal(event["ts"]) * 1000)
        getattr(result[device], name).append((start, start + int(Decimal(event["dur"]) * 1000)))
        if name == "copies":
            result[device].copy_bytes += int(args.get("bytes", 0))
    return dict(result)


def _nsys(data: bytes) -> dict[int, Figures]:
    result: dict[int, Figures] = defaultdict(Figures)
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as file:
        file.write(data)
        file.flush()
        connection = sqlite3.connect(file.name)
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if "StringIds" not in tables:
            raise ValueError("no export")
        for table, name in (("KERNEL", "kernels"), ("MEMCPY", "copies"), ("MEMSET", "memsets")):
            if f"CUPTI_ACTIVITY_KIND_{table}" not in tables:
                continue
            for start, end, device in connection.execute(
                f"SELECT start, end, deviceId FROM CUPTI_ACTIVITY_KIND_{table}"
            ):
                getattr(result[device], name).append((start, end))
        if "CUPTI_ACTIVITY_KIND_MEMCPY" in tables:
            for size, device in connection.execute("SELECT bytes, deviceId FROM CUPTI_ACTIVITY_KIND_MEMCPY"):
                result[device].copy_bytes += size
        connection.close()
    return dict(result)
