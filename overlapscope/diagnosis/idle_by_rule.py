"""The idle time of every GPU by rule: all of the diagnosis but its findings and simulations."""

from __future__ import annotations

from collections.abc import Iterator

from overlapscope.dependencies.build import build_graph
from overlapscope.diagnosis.attribution import Attribution
from overlapscope.diagnosis.config import DEFAULT, DiagnosisConfig
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import DeviceDiagnosis
from overlapscope.diagnosis.reasons import CODES, reason_of
from overlapscope.measure.copies import copy_facts
from overlapscope.measure.devices import activity, device_keys
from overlapscope.measure.windows import Window, window_of
from overlapscope.model.trace import Trace


def idle_by_rule(
    trace: Trace, within: str | Window | None = None, config: DiagnosisConfig = DEFAULT
) -> tuple[DeviceDiagnosis, ...]:
    """The idle intervals of each GPU with their rules, as in a `Diagnosis`, but without findings or simulations.

    Raises:
        RangeNotFound: the trace has no such range.
    """
    attribution = Attribution(build_graph(trace, config.dependencies), config.dependencies)
    return tuple(device for _, device in attributed(attribution, window_of(trace, within), config))


def attributed(
    attribution: Attribution, window: Window, config: DiagnosisConfig
) -> list[tuple[DeviceContext, DeviceDiagnosis]]:
    """Every device that is used, with the rules of its idle intervals."""
    busy = [context for context in _contexts(attribution, window, config) if len(context.activity.busy)]
    return [(context, _diagnosed(context)) for context in _used(busy)]


def _diagnosed(context: DeviceContext) -> DeviceDiagnosis:
    reason = reason_of(context)
    return DeviceDiagnosis(context.activity.key, context.span_ns, context.idle, reason, context.lateness, CODES)


def _contexts(attribution: Attribution, window: Window, config: DiagnosisConfig) -> Iterator[DeviceContext]:
    graph = attribution.graph
    facts = copy_facts(graph.trace, window, config.dependencies.host)
    for key in device_keys(graph.trace, window):
        active = activity(graph.trace, key, window)
        yield DeviceContext(graph, window, active, attribution.findings(active, window), facts, config)


def _used(contexts: list[DeviceContext]) -> list[DeviceContext]:
    """Leave out devices that are almost never busy compared with others of their process."""
    most: dict[int, int] = {}
    for context in contexts:
        process = context.activity.key.process
        most[process] = max(most.get(process, 0), context.activity.busy.total_ns)
    return [
        context
        for context in contexts
        if context.activity.busy.total_ns >= context.config.used_device_share * most[context.activity.key.process]
    ]
