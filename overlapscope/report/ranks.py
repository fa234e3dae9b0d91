"""Several traces at once: a row for each GPU of each, and each finding once, with the ranks that have it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from overlapscope.diagnosis.finding import Finding, Severity
from overlapscope.diagnosis.gpu_time import COLLECTIVES, COPIES, KERNELS
from overlapscope.formatting import counted, safe, share, time
from overlapscope.report.data import Audit, DeviceAudit
from overlapscope.report.findings import portion, worth
from overlapscope.report.layout import fitted
from overlapscope.report.tables import Cells

_NAME_WIDTH = 32
_MOST_NAMED = 8  # ranks that a line names
_SEVERAL = 2
_UNEVEN = 0.1  # ranks of a job differ by a few hundredths without a reason


@dataclass(frozen=True)
class SharedFinding:
    """A finding of several traces: where it costs most, and the idle time in each trace that has it."""

    worst: Finding
    idle_ns: tuple[tuple[str, int], ...]


def render_ranks(audits: Sequence[Audit], console: Console) -> None:
    """Print one table of all traces and their findings, each once."""
    named = list(zip(rank_names(audits), audits, strict=True))
    used = [(name, audit) for name, audit in named if audit.devices]
    rows = [_row(name, audit, device) for name, audit in used for device in audit.devices]
    parts: list[RenderableType] = [*fitted(f"{counted(len(audits), 'trace')}", rows, console.width)] if rows else []
    parts += [Text(f"{name}: {audit.verdict}") for name, audit in named if not audit.devices]
    parts += [
        Text(""),
        *(waited_for(used) if used else ()),
        *(part for shared in shared_findings(named) for part in _finding(shared, len(used))),
    ]
    parts.append(Text("--per-rank prints each trace by itself.", style="dim"))
    console.print(Group(*parts))


def rank_names(audits: Sequence[Audit]) -> list[str]:
    """``rank 3`` where every trace has a rank of its own; else the names of the files."""
    ranks = [audit.trace.metadata.rank for audit in audits]
    if None not in ranks and len(set(ranks)) == len(ranks):
        return [f"rank {rank}" for rank in ranks]
    return [safe(PurePath(audit.trace.metadata.path).name, _NAME_WIDTH) for audit in audits]


def shared_findings(named: Sequence[tuple[str, Audit]]) -> list[SharedFinding]:
    """Findings of one rule and kind are one, the most expensive first."""
    found: dict[tuple[str | None, ...], list[tuple[str, Finding]]] = {}
    for name, audit in named:
        for finding in audit.diagnosis.findings:
            found.setdefault((finding.code, finding.kind), []).append((name, finding))
    shared = [_shared(entries) for entries in found.values()]
    order = {Severity.HAZARD: 0, Severity.INFO: 2}
    return sorted(shared, key=lambda each: (order.get(each.worst.severity, 1), -each.worst.idle_ns, each.worst.code))


def waited_for(named: Sequence[tuple[str, Audit]]) -> list[Text]:
    """Which trace the others most likely wait for in collectives: the one that waits least there itself."""
    waits = {}
    for name, audit in named:
        spent = [device.time for device in audit.devices if device.time.total_ns]
        waits[name] = max((each.of(COLLECTIVES) / each.total_ns for each in spent), default=0.0)
    least, most = min(waits, key=lambda name: waits[name]), max(waits.values())
    if len(waits) < _SEVERAL or most - waits[least] < _UNEVEN:
        return []
    findings = next(audit for name, audit in named if name == least).diagnosis.findings
    text = f"{least} is in exposed collectives for {100 * waits[least]:.0f} % of its time, others for up to "
    text += f"{100 * most:.0f} %: most likely they wait for it."
    return [Text(text + (f" Its first finding: {findings[0].title}." if findings else ""), style="bold"), Text("")]


def _shared(entries: Sequence[tuple[str, Finding]]) -> SharedFinding:
    most: dict[str, int] = {}
    for name, finding in entries:
        most[name] = max(most.get(name, 0), finding.idle_ns)
    worst = max((finding for _, finding in entries), key=lambda finding: finding.idle_ns)
    return SharedFinding(worst, tuple(sorted(most.items(), key=lambda entry: -entry[1])))


def _row(name: str, audit: Audit, device: DeviceAudit) -> Cells:
    spent = device.time
    first = next((each for each in audit.diagnosis.findings if each.is_about(device.key)), None)
    return {
        "trace": name,
        "GPU": device.key.title.removeprefix("GPU "),
        "window": time(spent.total_ns),
        "kernels": share(spent.of(KERNELS), spent.total_ns),
        "idle": share(spent.waiting_ns - spent.of(COPIES), spent.total_ns),
        "exposed copies": share(spent.of(COPIES), spent.total_ns),
        "exposed collectives": share(spent.of(COLLECTIVES), spent.total_ns),
        "first finding": "" if first is None else first.title,
    }


def _finding(shared: SharedFinding, of: int) -> Iterator[RenderableType]:
    worst, names = shared.worst, [name for name, _ in shared.idle_ns]
    least, most = shared.idle_ns[-1][1], shared.idle_ns[0][1]
    what = "GPU idle" if worst.idle_rows else "exposed for"
    cost = f"{what} {time(most)}" if time(least) == time(most) else f"{what} {time(least)} to {time(most)}"
    head = Text(worst.title, style="bold")
    facts = ([cost] if most else []) + [f"severity {worst.severity}", f"confidence {worst.confidence}"]
    head.append(f"  {len(names)} of {of} traces: " + ", ".join(facts), style="not bold dim")
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    lines = [Text(f"in {', '.join(names[:_MOST_NAMED])}{more}", style="dim")] if len(names) < of else []
    where = f"at {safe(worst.where.words)}{portion(worst)}" if worst.where.words else ""
    lines += [Text(safe(worst.message)), *([Text(where, style="dim")] if where else [])]
    lines += [Text(line) for line in worth(worst, None)]
    lines += [Text(safe(line), style="cyan") for line in worst.fix.splitlines() if worst.offered]
    yield head
    yield from (Padding(line, (0, 0, 0, 3)) for line in lines)
    yield Text("")
