"""`audit`: collect everything that the reports about a trace show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from overlapscope.dependencies.build import build_graph
from overlapscope.diagnosis.attribution import Attribution
from overlapscope.diagnosis.config import DEFAULT as DIAGNOSIS
from overlapscope.diagnosis.config import DiagnosisConfig
from overlapscope.diagnosis.finding import Diagnosis
from overlapscope.diagnosis.gpu_time import gpu_time
from overlapscope.diagnosis.run import diagnose_window, silent
from overlapscope.fitness.config import DEFAULT as FITNESS
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.fitness import doctor
from overlapscope.formatting import changed
from overlapscope.measure.ceiling import ceiling
from overlapscope.measure.copies import CopyFacts, blocked_by_calls, copy_facts
from overlapscope.measure.devices import Activity, DeviceKey, activity, device_keys, without_kernels
from overlapscope.measure.groups import group_copies
from overlapscope.measure.host import DEFAULT, HostConfig, host_blocking
from overlapscope.measure.launches import launch_figures
from overlapscope.measure.ranges import figures_by_range
from overlapscope.measure.spans import Spans, covered, intersect, union
from overlapscope.measure.staging import StagingConfig, staging
from overlapscope.measure.windows import Window, inside, window_of
from overlapscope.model.columns import NO_ID, Bool, known
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.tables import Ranges, Timed
from overlapscope.model.trace import DEVICE_WORK, Trace
from overlapscope.report.data import Audit, CostlyCopy, DeviceAudit, Occurrence, StreamFigures
from overlapscope.report.headline import headline
from overlapscope.report.verdict import verdict


@dataclass(frozen=True)
class AuditConfig:
    """How much an audit lists, and the thresholds of its measurements.

    ``costly_copies``: number of most expensive copies listed; a screen holds about ten.
    ``longest_ranges``: number of range names listed; programs that annotate every operator have thousands.
    """

    costly_copies: int = 10
    longest_ranges: int = 50
    host: HostConfig = DEFAULT
    staging: StagingConfig = StagingConfig()
    diagnosis: DiagnosisConfig = DIAGNOSIS
    fitness: FitnessConfig = FITNESS

    __repr__ = changed


def audit(
    trace: Trace,
    within: str | Window | None = None,
    config: AuditConfig = AuditConfig(),
    on_phase: Callable[[str], None] | None = None,
) -> Audit:
    """Measure the overlap and the cost of the copies of ``trace``, and diagnose why they were not hidden.

    Args:
        trace: an opened trace.
        within: restrict every figure to the host ranges of this name (``*`` and ``?`` match; each occurrence counts up
            to the end of the device work issued inside it), or to a `Window`; None for the whole trace.
        config: thresholds, with their reasons.
        on_phase: called with the name of each part of the work when it begins.

    Raises:
        RangeNotFound: the trace has no such range.
    """
    window, on_phase = window_of(trace, within), on_phase or silent
    on_phase("dependencies")
    facts = copy_facts(trace, window, config.host)
    dependencies = config.diagnosis.dependencies
    attribution = Attribution(build_graph(trace, dependencies), dependencies)
    diagnosis = diagnose_window(attribution, window, config.diagnosis, on_phase)
    on_phase("figures")
    devices = tuple(_device(attribution, key, facts, diagnosis, config) for key in device_keys(trace, window))
    devices = tuple(device for device in devices if len(device.activity.busy) or within is None)
    blocking = host_blocking(trace, window, config.host)
    blocked_ns = blocked_by_calls(trace, facts, np.flatnonzero(inside(trace, trace.copies, window)))
    return Audit(
        trace=trace,
        fit=doctor(trace, config.fitness),
        window=window,
        occurrences=_occurrences(window, devices),
        devices=devices,
        host_blocking=blocking,
        ranges=figures_by_range(trace, _ranges_within(trace.ranges, window), config.longest_ranges, window),
        costly=_costly(trace, facts, window, config.costly_copies),
        counts=_counts(trace, window),
        diagnosis=diagnosis,
        headline=headline(devices, diagnosis, blocked_ns),
        verdict=verdict(
            trace,
            window,
            [(device.activity, device.directions, device.kernel_gaps, device.ceiling) for device in devices],
            blocked_ns,
        ),
    )


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


def _device(
    attribution: Attribution, key: DeviceKey, facts: CopyFacts, diagnosis: Diagnosis, config: AuditConfig
) -> DeviceAudit:
    trace, window = attribution.graph.trace, diagnosis.window
    active = activity(trace, key, window)
    mine = key.rows(trace.copies)
    diagnosed = next((device for device in diagnosis.devices if device.key == key), None)
    return DeviceAudit(
        key=key,
        name=trace.metadata.device_name(key.device),
        activity=active,
        idle=attribution.by_cause(key, active.idle),
        time=gpu_time(active, diagnosed, window),
        kernel_gaps=attribution.by_cause(key, without_kernels(active), kernels_only=True),
        ceiling=ceiling(trace, active, config.host),
        launches=launch_figures(trace, key, window),
        staging=tuple(staging(trace, facts, key, window, config.staging)),
        directions=group_copies(trace, facts, window, ("direction",), mine),
        memory=group_copies(trace, facts, window, ("direction", "memory"), mine),
        streams=_streams(trace, key, facts, window),
    )


def _streams(trace: Trace, key: DeviceKey, facts: CopyFacts, window: Window) -> tuple[StreamFigures, ...]:
    here = {
        name: key.rows(table) & inside(trace, table, window)
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
    here = np.flatnonzero(inside(trace, trace.copies, window))
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
    there = {name: inside(trace, table, window) for name, table in (work | others).items()}
    without_call = sum(int((there[name] & (table.call == NO_ID)).sum()) for name, table in work.items())
    return {name: int(rows.sum()) for name, rows in there.items()} | {"device_work_without_call": without_call}


def _ranges_within(ranges: Ranges, window: Window) -> Ranges:
    """The ranges that lie completely within the window."""
    return ranges.take(window.covers(ranges.process, ranges.start_ns, ranges.end_ns) == ranges.duration_ns)
