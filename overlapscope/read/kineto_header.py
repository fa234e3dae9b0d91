"""Read metadata from the top-level keys of a Kineto trace; only technical keys are read."""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

from overlapscope.calibration.reading import from_json
from overlapscope.calibration.schema import KEY
from overlapscope.calibration.values import count, moment
from overlapscope.model.metadata import Device, Metadata
from overlapscope.read.chunks import Opening
from overlapscope.read.devices import with_calibration
from overlapscope.read.log import HealthLog

_CUT_TRAILER = "the part after the events is truncated or malformed; versions and devices given there are not known"
KEYS = frozenset({"schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds", "trace_id", KEY})
"""Top-level keys by which a file is Kineto's, whatever its events are."""
VERSION_KEYS = (
    "cuda_driver_version",
    "cuda_runtime_version",
    "cupti_version",
    "hip_driver_version",
    "hip_runtime_version",
    "roctracer_version",
    "rocprofiler-sdk_version",
)


def trailer_keys(trailer: bytes | None, opening: Opening, log: HealthLog) -> dict[str, Any]:
    """The top-level keys after the event list; a header or an end that is damaged is logged."""
    if trailer is None:
        log.damage("truncated", 1, "the file is truncated within its list of events; all events before were read")
    if not opening.header_ok:
        log.warn("bad-header", 1, "the part before the events is not valid JSON; versions and devices are not known")
    text = (trailer or b"").strip()
    if b'"traceEvents"' in text:
        log.damage("second-trace", 1, "the file has a second list of events, which was not read")
    if not text or trailer is None:
        log.damage("truncated", int(trailer is not None and not opening.is_list), _CUT_TRAILER)
        return {}
    try:
        keys = json.loads(b"{" + text.removeprefix(b",").strip(), strict=False)
    except (ValueError, RecursionError):
        log.damage("bad-trailer", 1, _CUT_TRAILER)
        return {}
    return keys if isinstance(keys, dict) else {}


def metadata_of(
    header: dict[str, Any], path: Path, thread_names: dict[tuple[int, int], str], *, is_list: bool
) -> Metadata:
    """Metadata from the header and trailer keys; what is missing or malformed stays unknown."""
    distributed = header.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    listed = header.get("deviceProperties")
    calibration = from_json(header.get(KEY))
    devices = [_device(entry) for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    return Metadata(
        format="kineto",
        path=str(path),
        tool="torch.profiler (Kineto)",
        schema_version="list" if is_list else str(header.get("schemaVersion", "")),
        base_time_ns=moment(header.get("baseTimeNanoseconds")),
        rank=count(distributed.get("rank")),
        world_size=count(distributed.get("world_size")),
        devices=tuple(with_calibration(device, calibration) for device in devices if device is not None),
        versions=MappingProxyType({key: str(header[key]) for key in VERSION_KEYS if key in header}),
        thread_names=MappingProxyType(thread_names),
        recording=calibration,
    )


def _device(entry: dict[str, Any]) -> Device | None:
    number = count(entry.get("id"))
    if number is None:
        return None
    major, minor = entry.get("computeMajor"), entry.get("computeMinor")
    return Device(
        number=number,
        name=str(entry.get("name", "")),
        memory_bytes=count(entry.get("totalGlobalMem")),
        multiprocessors=count(entry.get("numSms")),
        compute_capability=f"{major}.{minor}" if isinstance(major, int) and isinstance(minor, int) else None,
    )
