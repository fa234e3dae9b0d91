"""What the change of a finding saves by itself, and what the GPU waits for instead where that is almost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from overlapscope.dependencies.build import build_graph
from overlapscope.diagnosis.attribution import Attribution
from overlapscope.diagnosis.config import DiagnosisConfig
from overlapscope.diagnosis.finding import Expected, Finding, Plan
from overlapscope.diagnosis.gpu_time import GpuTime, gpu_time
from overlapscope.diagnosis.idle_by_rule import attributed
from overlapscope.measure.devices import DeviceKey
from overlapscope.measure.windows import Window, window_of
from overlapscope.model.columns import NO_ID
from overlapscope.whatif.catalogue import parse
from overlapscope.whatif.change import Change
from overlapscope.whatif.prediction import Prediction
from overlapscope.whatif.retimed import retimed
from overlapscope.whatif.what_if import Baseline

_OTHERS = "it also removes idle time that is listed under other causes"
_UNPROFILED = "the idle time is recorded, the saving is without the profiler"


def change_of(name: str, findings: Sequence[Finding]) -> Change:
    """The change that fixes some findings: of all that it may change, or of their calls where it is about these."""
    change = parse(name)
    if not change.of_findings_calls:
        return change
    calls = {call for finding in findings if finding.change == name for call in finding.calls}
    return replace(change, calls=tuple(sorted(calls)))


def expected(found: Prediction) -> Expected:
    """The times that a prediction has, on both bases and on the one that is stated."""
    known = found.stated
    return Expected(
        predicted_ns=found.predicted_ns,
        predicted_low_ns=found.low_ns,
        predicted_high_ns=found.high_ns,
        unprofiled_ns=found.own.predicted_ns,
        unprofiled_low_ns=found.own.low_ns,
        unprofiled_high_ns=found.own.high_ns,
        time_ns=known.predicted_ns,
        time_low_ns=known.low_ns,
        time_high_ns=known.high_ns,
        narrowed_by=found.narrowed_by,
    )


def with_saving(
    base: Baseline,
    attribution: Attribution,
    finding: Finding,
    plan: Plan,
    config: DiagnosisConfig,
) -> Finding:
    """Add the simulated saving of a finding's change by itself, as the plan has it; 0 where it would cost time.

    A saving close to zero gets an upper bound too, since the consumers of a copy may not be in the trace. If that is
    close to zero too, and the change helps with no other one, it is not offered; nor if it only saves what the profiler
    cost.
    """
    if finding.change is None:
        return finding
    change = change_of(finding.change, [finding])
    least = config.report_share * base.stated_ns
    stated_ns, most = base.stated.length_with((change,)), 0
    saving = max(base.stated_ns - stated_ns, 0)
    if saving < least:
        most = base.stated_ns - stated_ns + base.stated.run_with((change,)).order.less_ns
    high = most if most >= least and most > saving else None
    idle_ns = finding.idle_ns * base.stated_ns / max(base.simulated_ns, 1)
    worth = max(config.worthless_share * idle_ns, config.noise_share * base.stated_ns)
    own_saving = max(base.own_ns - base.own.length_with((change,)), 0)
    lasts = high is not None or own_saving >= config.noise_share * base.own_ns
    planned = any(finding.change in step.changes for step in plan.steps)
    offered = planned or (lasts and max(saving, high or 0) >= worth)
    return replace(
        finding,
        saving_ns=saving,
        saving_high_ns=high,
        unprofiled_saving_ns=own_saving,
        expected=expected(base.predict((change,))) if saving and offered else None,
        offered=offered,
        waits_instead=None if offered else _waits_instead(base, attribution, change, finding, config),
        saves_more=_saves_more(base, change, finding, saving),
    )


def _saves_more(base: Baseline, change: Change, finding: Finding, saving: int) -> str | None:
    """Why a change saves more than the GPU idle time of its finding."""
    if saving <= finding.idle_ns:
        return None
    recorded = base.simulated_ns - base.recorded.length_with((change,))
    return _OTHERS if 2 * (recorded - finding.idle_ns) > saving - finding.idle_ns else _UNPROFILED


def _waits_instead(
    base: Baseline, attribution: Attribution, change: Change, finding: Finding, config: DiagnosisConfig
) -> str | None:
    """What a GPU waits for in a simulation in which it waits no less; None unless most of the time went there."""
    found = retimed(base.recorded.run_with((change,)).after)
    key = DeviceKey(*(NO_ID if n is None else n for n in (finding.where.process, finding.where.device)))
    graph = build_graph(found, config.dependencies)
    before = _time(attribution, key, base.window, config)
    after = _time(Attribution(graph, config.dependencies), key, window_of(found, base.window.name), config)
    if before is None or after is None:
        return None
    longer = {part.label: part.time_ns - before.of(part.key) for part in after.parts}
    most = max(longer, key=lambda label: longer[label])
    return most.removeprefix("idle: ") if 2 * longer[most] > finding.idle_ns else None


def _time(attribution: Attribution, key: DeviceKey, window: Window, config: DiagnosisConfig) -> GpuTime | None:
    """The time of a GPU, None where it is hardly used."""
    found = {device.key: (context.activity, device) for context, device in attributed(attribution, window, config)}
    return gpu_time(*found[key], window) if key in found else None
