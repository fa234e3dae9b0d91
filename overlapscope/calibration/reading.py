"""A calibration from the data in a trace; what is malformed counts as not measured."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from overlapscope.calibration.schema import (
    SCHEMA,
    Calibration,
    CopyConsumers,
    CopyTime,
    D2HConsumers,
    DuplexTime,
    Gpu,
    HostAccesses,
    IssueCost,
    Loader,
    Packing,
    PackTime,
    PcieLink,
    PostStaging,
    ReusedBlocks,
    TimedSteps,
)
from overlapscope.calibration.values import count, flag, listing, mapping, moment, text
from overlapscope.calibration.version_1 import SCHEMA_1, upgraded

if TYPE_CHECKING:
    from overlapscope.calibration.schema import Int64

_Row = TypeVar("_Row")


def from_json(data: Any) -> Calibration | None:
    """The calibration in the ``data`` of a trace, of this version or the first; None where it is no calibration."""
    schema = mapping(data).get("schema")
    if schema not in (SCHEMA, SCHEMA_1):
        return None
    data = upgraded(data) if schema == SCHEMA_1 else data
    consumers = _columns(data.get("copy_consumers"), "op_start_ns", "tensor")
    first_consumers = _columns(data.get("d2h_consumers"), "copy_start_ns", "op_start_ns")
    accesses = _columns(data.get("host_accesses"), "op_start_ns", "tensor", "access")
    reused = _columns(data.get("reused_blocks"), "used_start_ns", "reused_start_ns")
    versions = {str(name): text(version) for name, version in mapping(data.get("versions")).items()}
    return Calibration(
        versions=MappingProxyType(versions),
        devices=gpus(data.get("devices")),
        copies=_rows(data.get("copies"), _copy_time),
        duplex=_rows(data.get("duplex"), _duplex_time),
        packing=_packing(mapping(data.get("packing"))),
        post_staging=_rows(data.get("post_staging"), _post_staging),
        issue_unprofiled=_issue_cost(mapping(data.get("issue_unprofiled"))),
        issue_profiled=_issue_cost(mapping(data.get("issue_profiled"))),
        recorded=_timed_steps(mapping(data.get("recorded"))),
        unprofiled=_timed_steps(mapping(data.get("unprofiled"))),
        loaders=_rows(data.get("loaders"), _loader),
        copy_consumers=None if consumers is None else CopyConsumers(*consumers),
        d2h_consumers=None if first_consumers is None else D2HConsumers(*first_consumers),
        host_accesses=None if accesses is None else HostAccesses(*accesses),
        reused_blocks=None if reused is None else ReusedBlocks(*reused),
    )


def gpus(data: Any) -> tuple[Gpu, ...]:
    """The GPUs in a list of them; those without a number are left out."""
    return _rows(data, _gpu)


def _rows(data: Any, understood: Callable[[dict[str, Any]], _Row | None]) -> tuple[_Row, ...]:
    """Those rows of a list that are understood."""
    return tuple(found for row in listing(data) if (found := understood(mapping(row))) is not None)


def _gpu(row: dict[str, Any]) -> Gpu | None:
    number, capability, link = count(row.get("number")), row.get("compute_capability"), mapping(row.get("link"))
    if number is None:
        return None
    return Gpu(
        number=number,
        name=text(row.get("name")),
        memory_bytes=count(row.get("memory_bytes")),
        multiprocessors=count(row.get("multiprocessors")),
        compute_capability=capability if isinstance(capability, str) else None,
        copy_engines=count(row.get("copy_engines")),
        link=PcieLink(
            pcie_generation=count(link.get("pcie_generation")),
            pcie_width=count(link.get("pcie_width")),
            pcie_max_generation=count(link.get("pcie_max_generation")),
            pcie_max_width=count(link.get("pcie_max_width")),
        ),
    )


def _copy_time(row: dict[str, Any]) -> CopyTime | None:
    size, copy_ns = count(row.get("size_bytes")), count(row.get("copy_ns"))
    if not size or not copy_ns:
        return None
    direction, host_memory = text(row.get("direction")), text(row.get("host_memory"))
    return CopyTime(direction, host_memory, size, copy_ns, device=count(row.get("device")))


def _duplex_time(row: dict[str, Any]) -> DuplexTime | None:
    alone, beside = count(row.get("alone_ns")), count(row.get("beside_ns"))
    return DuplexTime(text(row.get("direction")), alone, beside) if alone and beside else None


def _packing(row: dict[str, Any]) -> Packing:
    return Packing(_rows(row.get("pieces"), _pack_time), count(row.get("start_ns")), count(row.get("view_ns")))


def _pack_time(row: dict[str, Any]) -> PackTime | None:
    size, pack_ns = count(row.get("size_bytes")), count(row.get("pack_ns"))
    if not size or not pack_ns:
        return None
    others = ("ragged_ns", "warm_pack_ns", "warm_ragged_ns")
    return PackTime(size, pack_ns, *(count(row.get(key)) for key in others))


def _post_staging(row: dict[str, Any]) -> PostStaging | None:
    size = count(row.get("size_bytes"))
    issue_ns, usual_ns = _cumulative(row.get("issue_ns")), _cumulative(row.get("usual_ns"))
    return PostStaging(size, issue_ns, usual_ns) if size and issue_ns and len(issue_ns) == len(usual_ns) else None


def _cumulative(data: Any) -> tuple[int, ...]:
    """Cumulative times; none where one of them is no time, or no more than the one before."""
    times = tuple(count(each) or 0 for each in listing(data))
    return times if all(before < after for before, after in pairwise((0, *times))) else ()


def _issue_cost(row: dict[str, Any]) -> IssueCost | None:
    return IssueCost(*(count(row.get(key)) for key in ("kernel_ns", "copy_ns", "call_ns"))) if row else None


def _timed_steps(row: dict[str, Any]) -> TimedSteps | None:
    steps, wall_ns = count(row.get("count")), count(row.get("wall_ns"))
    if not steps or not wall_ns:
        return None
    return TimedSteps(steps, wall_ns, tuple(each for entry in listing(row.get("host_ns")) if (each := count(entry))))


def _loader(row: dict[str, Any]) -> Loader | None:
    if not row:
        return None
    return Loader(
        place=text(row.get("place")),
        workers=count(row.get("workers")),
        pin_memory=flag(row.get("pin_memory")),
        prefetch_factor=count(row.get("prefetch_factor")),
        persistent_workers=flag(row.get("persistent_workers")),
        batch=text(row.get("batch")),
        unpinnable=text(row.get("unpinnable")),
        batches=count(row.get("batches")),
    )


def _columns(data: Any, *names: str) -> list[Int64] | None:
    """Columns sorted by the first; None where a part is missing: half of who reads what is worse than nothing."""
    import numpy as np

    columns = [mapping(data).get(name) for name in names]
    if not all(isinstance(column, list) for column in columns) or len({len(listing(each)) for each in columns}) != 1:
        return None
    if any(moment(number) is None for column in columns for number in listing(column)):
        return None
    table = np.array(columns, np.int64).reshape(len(names), -1)
    return list(table[:, np.argsort(table[0], kind="stable")])
