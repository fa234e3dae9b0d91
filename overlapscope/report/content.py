"""`audit`: collect everything that the reports about a trace show."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from overlapscope.analysis.analysis import Analysis, Source, analyse, diagnose
from overlapscope.diagnosis.conclusion import concluded
from overlapscope.diagnosis.gpu_time import gpu_time
from overlapscope.fitness.fitness import fitness_of
from overlapscope.measure.ceiling import ceiling
from overlapscope.measure.copies import CopyFacts, blocked_by_calls, group_copies, staging
from overlapscope.measure.devices import Activity, DeviceKey, without_kernels
from overlapscope.measure.host import host_blocking
from overlapscope.measure.launches import launch_figures
from overlapscope.measure.ranges import figures_by_range
from overlapscope.measure.spans import Spans, covered, intersect, union
from overlapscope.measure.windows import Window, inside
from overlapscope.model.columns import NO_ID, Bool, Float64, Int64, known
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.tables import Ranges, Timed
from overlapscope.model.trace import DEVICE_WORK, Trace
from overlapscope.report.data import Audit, CostlyCopy, DeviceAudit, Occurrence, StreamFigures
from overlapscope.report.headline import headline, verdict
from overlapscope.whatif.copy_speeds import calibrated_speed


def audit(source: Source, within: str | Window | None = None, *, plan: bool = True) -> Audit:
    """Measure the overlap and the cost of the copies of a trace, and diagnose why they were not hidden.

    Args:
        source: an opened trace, its path, or an analysis.
        within: restrict every figure to the host ranges of this name (``*`` and ``?`` match; each occurrence counts up
            to the end of the device work issued inside it), or to a `Window`; None for the whole trace.
        plan: simulate what fixes save, which takes most of the time.

    Raises:
        RangeNotFound: the trace has no such range.
    """
    analysis = analyse(source, within)
    trace, window, facts = analysis.trace, analysis.window, analysis.copy_facts
    diagnosis = diagnose(analysis, plan=plan)
    conclusion = analysis.conclusion if plan else concluded(analysis.stated.recorded, diagnosis)
    devices = _devices(analysis)
    stated = devices if analysis.stated is analysis else _devices(analysis.stated)
    blocked_ns, least = _blocked_ns(analysis.stated), analysis.config.report_share
    return Audit(
        analysis=analysis,
        fit=fitness_of(trace),
        occurrences=_occurrences(window, devices),
        devices=devices,
        host_blocking=host_blocking(trace, window),
        ranges=figures_by_range(trace, _ranges_within(trace.ranges, window), analysis.config.longest_ranges, window),
        costly=_costly(trace, facts, window, analysis.config.costly_copies),
        counts=_counts(trace, window),
        diagnosis=diagnosis,
        conclusion=conclusion,
        stated=stated,
        headline=headline(stated, devices, conclusion, blocked_ns, least),
        verdict=verdict(stated, conclusion, blocked_ns, least),
    )


def _devices(analysis: Analysis) -> tuple[DeviceAudit, ...]:
    """The GPUs of an analysis; of a part of the trace only those with work in it."""
    every = analysis.window.is_whole
    return tuple(_device(analysis, active) for active in analysis.activities if every or len(active.busy))


def _blocked_ns(analysis: Analysis) -> int:
    """The time for which copy calls blocked the host, each call counted once."""
    copies = np.flatnonzero(inside(analysis.trace.copies, analysis.window))
    return blocked_by_calls(analysis.trace, analysis.copy_facts, copies)


def _occurrences(window: Window, devices: tuple[DeviceAudit, ...]) -> tuple[Occurrence, ...]:
    def busy(spans: Callable[[Activity], Spans]) -> list[int]:
        total = np.zeros(len(window.start_ns), np.int64)
        for device in devices:
            mine = window.counts_for(device.key.process)
            total[mine] += covered(window.start_ns[mine], window.end_ns[mine], spans(device.activity))
        return [int(value) for value in total]

    columns = (
        window.start_ns.tolist(),
        window.end_ns.tolist(),
        busy(lambda activity: activity.kernels),
        busy(lambda activity: activity.copies),
        busy(lambda activity: activity.overlap),
    )
    return tuple(Occurrence(*row) for row in zip(*columns, strict=True))


def _device(analysis: Analysis, active: Activity) -> DeviceAudit:
    trace, window, facts, key = analysis.trace, analysis.window, analysis.copy_facts, active.key
    rows = key.rows(trace.copies)
    diagnosed = next((device for device in analysis.devices if device.key == key), None)
    attribution = analysis.attribution
    return DeviceAudit(
        key=key,
        name=trace.metadata.device_name(key.device),
        activity=active,
        idle=attribution.by_cause(key, active.idle),
        time=gpu_time(active, diagnosed, window),
        kernel_gaps=attribution.by_cause(key, without_kernels(active), kernels_only=True),
        ceiling=ceiling(trace, active),
        launches=launch_figures(trace, key, window),
        staging=tuple(staging(trace, facts, key, window, _calibrated(trace))),
        directions=group_copies(trace, facts, window, ("direction",), rows),
        memory=group_copies(trace, facts, window, ("direction", "memory"), rows),
        streams=_streams(trace, key, facts, window),
    )


def _calibrated(trace: Trace) -> dict[Direction, Callable[[Int64], Float64]]:
    """What pinned copies of some sizes take in each direction that the calibration of the trace measured."""
    speeds = {way: calibrated_speed(trace, way, MemoryKind.PINNED) for way in (Direction.HTOD, Direction.DTOH)}
    return {way: speed.exact_ns for way, speed in speeds.items() if speed is not None}


def _streams(trace: Trace, key: DeviceKey, facts: CopyFacts, window: Window) -> tuple[StreamFigures, ...]:
    here = {
        name: key.rows(table) & inside(table, window)
        for name, table in zip(DEVICE_WORK, trace.device_work, strict=True)
    }
    used = np.unique(np.concatenate([getattr(trace, name).stream[rows] for name, rows in here.items()]))
    return tuple(_stream(trace, stream, here, facts, window.of(key.process)) for stream in used.tolist())


def _stream(trace: Trace, stream: int, here: dict[str, Bool], facts: CopyFacts, within: Spans) -> StreamFigures:
    rows = {name: mine & (getattr(trace, name).stream == stream) for name, mine in here.items()}
    kernels = trace.kernels.take(rows["kernels"])
    return StreamFigures(
        stream=stream,
        kernels=len(kernels),
        copies=int(rows["copies"].sum()),
        memsets=int(rows["memsets"].sum()),
        kernel_busy_ns=intersect(union(kernels.start_ns, kernels.end_ns), within).total_ns,
        copy_total_ns=int(facts.total_ns[rows["copies"]].sum()),
        hidden_ns=int(facts.hidden_ns[rows["copies"]].sum()),
        exposed_ns=int(facts.exposed_ns[rows["copies"]].sum()),
    )


def _costly(trace: Trace, facts: CopyFacts, window: Window, count: int) -> tuple[CostlyCopy, ...]:
    here = np.flatnonzero(inside(trace.copies, window))
    cost = np.maximum(facts.exposed_ns, facts.blocked_ns)[here]
    if cost.max(initial=0) <= 0:
        return ()
    worst = here[np.argsort(-cost, kind="stable")][:count]
    return tuple(_costly_copy(trace, facts, row) for row in worst.tolist())


def _costly_copy(trace: Trace, facts: CopyFacts, row: int) -> CostlyCopy:
    copies, call, place = trace.copies, int(trace.copies.call[row]), int(facts.range_row[row])

    return CostlyCopy(
        row=row,
        process=known(copies.process[row]),
        device=known(copies.device[row]),
        stream=known(copies.stream[row]),
        direction=Direction(int(copies.direction[row])).label,
        memory=MemoryKind(int(facts.host_kind[row])).label,
        size_bytes=known(copies.size_bytes[row]),
        start_ns=int(copies.start_ns[row]),
        total_ns=int(facts.total_ns[row]),
        hidden_ns=int(facts.hidden_ns[row]),
        exposed_ns=int(facts.exposed_ns[row]),
        hideable_ns=known(facts.hideable_ns[row]),
        blocked_ns=known(facts.blocked_ns[row]),
        call=trace.names[int(trace.api_calls.name_id[call])] if call != NO_ID else None,
        range=trace.names[int(trace.ranges.name_id[place])] if place != NO_ID else None,
    )


def _counts(trace: Trace, window: Window) -> dict[str, int]:
    """Number of rows of each table within the window, and of device work without a known call."""
    work = dict(zip(DEVICE_WORK, trace.device_work, strict=True))
    others: dict[str, Timed] = {name: getattr(trace, name) for name in ("api_calls", "syncs", "ranges")}
    there = {name: inside(table, window) for name, table in (work | others).items()}
    without_call = sum(int((there[name] & (table.call == NO_ID)).sum()) for name, table in work.items())
    return {name: int(rows.sum()) for name, rows in there.items()} | {"device_work_without_call": without_call}


def _ranges_within(ranges: Ranges, window: Window) -> Ranges:
    """The ranges that lie completely within the window."""
    return ranges.take(window.covers(ranges.process, ranges.start_ns, ranges.end_ns) == ranges.duration_ns)
