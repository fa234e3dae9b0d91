"""What an audit says, as a document: for terminals, pages and notebooks alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import PurePath

from overlapscope.diagnosis.catalogue import RULES
from overlapscope.diagnosis.gpu_time import COLLECTIVES, COPIES, KERNELS, MEMSETS, TimePart
from overlapscope.document.nodes import (
    Bar,
    BarPart,
    Bars,
    Bullets,
    Document,
    Facts,
    Figure,
    Medium,
    Node,
    Paragraph,
    Section,
    Table,
    Tone,
    table,
)
from overlapscope.formatting import share, time
from overlapscope.measure.windows import window_title
from overlapscope.model.trace import Trace
from overlapscope.report.data import Audit, DeviceAudit
from overlapscope.report.findings import findings_section, plan_section
from overlapscope.report.tables import tables

_HEALTH_ROWS = 8
_KINDS = {KERNELS: "kernel", COLLECTIVES: "collective", MEMSETS: "memset", COPIES: "copy exposed"}
_IDLE = {f"idle_{rule.code}": f"{rule.code} {rule.name}" for rule in RULES} | {
    f"idle_{rule.code}_{kind.name.lower()}": f"{rule.code} {rule.name}: {kind.label}"
    for rule in RULES
    for kind in rule.kind_looks
}
_IDLE_KEY = len("idle_OVL000")  # of a part's key; the kind of the finding may follow
_NO_FINDING = "GPU idle, no finding"


def audit_document(audit: Audit, *, with_places: bool = False) -> Document:
    """All that an audit says; ``with_places`` on its timeline, for a page that has one."""
    parts = (
        _about(audit),
        _headline(audit),
        time_section(audit.stated),
        findings_section(audit.conclusion, audit.diagnosis if with_places else None),
        plan_section(audit.conclusion),
        Section("Timeline", (Figure("timeline"),), "when"),
        Section("Figures", tuple(Section("", (each,)) for each in tables(audit, with_places=with_places)), "figures"),
        _health(audit),
    )
    path = audit.trace.metadata.path
    return Document(PurePath(path).name, parts, source=path)


def _about(audit: Audit) -> Section:
    gpus = sorted({device.name for device in audit.devices if device.name})
    length = f"{window_title(audit.window)}, {time(audit.window.wall_ns)}"
    length += "" if audit.window.is_whole else "; starts count from the begin of the trace"
    cost = _profiler_cost(audit)
    parts: list[Node] = [Facts((audit.trace.metadata.tool, *gpus, length))]
    parts += [Paragraph(cost, Tone.ABOUT)] if cost else []
    fit = Paragraph(audit.fit.statement, Tone.WARNING if audit.fit.limits else Tone.ABOUT)
    return Section("", (*parts, fit), "about")


def _headline(audit: Audit) -> Section:
    headline = (Paragraph(audit.headline, Tone.HEADLINE),) if audit.headline else ()
    return Section("", (*headline, Paragraph(audit.verdict, Tone.VERDICT)), "about")


def _profiler_cost(audit: Audit) -> str:
    """The time of a step with and without the profiler, where the recording measured it.

    Savings start from the recorded step as it would be without the profiler, which is another one than those timed.
    """
    recording, plan = audit.trace.metadata.recording, audit.diagnosis.plan
    if recording is None or recording.unprofiled is None or recording.recorded is None:
        return ""
    without, under = time(round(recording.unprofiled.step_ns)), time(round(recording.recorded.step_ns))
    text = f"recorded step: {under} with the profiler, {without} without"
    alone = plan is not None and plan.baseline == "unprofiled" and recording.recorded.count == 1
    if plan is None or not alone or not audit.window.is_whole or time(plan.baseline_ns) == without:
        return text
    return f"{text}; savings start from {time(plan.baseline_ns)}: the recorded step, simulated without the profiler"


def time_section(devices: Sequence[DeviceAudit]) -> Section:
    """A bar for each GPU; its length is the window."""
    used = [device for device in devices if device.time.total_ns]
    return Section("GPU time", (Bars(tuple(map(time_bar, used)), time_table(used)),) if used else (), "time")


def time_bar(device: DeviceAudit, most: int | None = None) -> Bar:
    """The time of a GPU as a bar, of ``most`` parts at most."""
    return Bar(f"{device.key.title} time", tuple(map(_part, device.time.largest(most=most))))


def _part(part: TimePart) -> BarPart:
    kind = _KINDS.get(part.key) or _IDLE.get(part.key) or _IDLE.get(part.key[:_IDLE_KEY], _NO_FINDING)
    return BarPart(part.label, part.time_ns, kind)


def time_table(devices: Sequence[DeviceAudit]) -> Table:
    """The time of each GPU in a row."""
    rows = [(device.time, device.time.total_ns) for device in devices]
    idle = [max((part for part in spent.parts if part.is_idle), key=lambda part: part.time_ns) for spent, _ in rows]
    columns = {
        "GPU": [device.key.title.removeprefix("GPU ") for device in devices],
        "process": [str(device.key.process) for device in devices],
        "window": [time(whole) for _, whole in rows],
        "kernels": [share(spent.of(KERNELS), whole) for spent, whole in rows],
        "exposed copies": [share(spent.of(COPIES), whole) for spent, whole in rows],
        "exposed collectives": [share(spent.of(COLLECTIVES), whole) for spent, whole in rows],
        "idle": [share(spent.waiting_ns - spent.of(COPIES), whole) for spent, whole in rows],
        "most of it": [part.label.removeprefix("idle: ") if part.time_ns else "" for part in idle],
    }
    return table("GPU time", columns)


def _health(audit: Audit) -> Section:
    """The warnings about the trace; a terminal leaves out those that the statement at the begin tells."""
    every = warnings_of(audit.trace)
    brief = warnings_of(audit.trace, audit.fit.told_health)
    parts = [
        Section("", (Bullets(shown, _HEALTH_ROWS, rest="; --format json lists all"),) if shown else (), medium=medium)
        for shown, medium in ((brief, Medium.TERMINAL), (every, Medium.PAGE))
    ]
    return Section("About the trace", tuple(parts), "trace")


def warnings_of(trace: Trace, without: Collection[str] = ()) -> tuple[Paragraph, ...]:
    """The health warnings of a trace but for those of some codes, and for the one that the verdict tells."""
    health = trace.health
    shown = [each for each in health if each.message != health.no_device_work and each.code not in without]
    return tuple(Paragraph(each.text, Tone(each.severity.value), label=str(each.severity)) for each in shown)
