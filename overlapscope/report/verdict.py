"""The verdict of an audit: up to three sentences about the overlap and the cost of the copies, and its ceiling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from overlapscope.diagnosis.causes import Cause, IdleByCause
from overlapscope.diagnosis.config import DEFAULT as DIAGNOSIS
from overlapscope.formatting import counted, share, size, time
from overlapscope.measure.ceiling import HOST, KERNELS, Ceiling
from overlapscope.measure.devices import Activity
from overlapscope.measure.groups import CopyGroup
from overlapscope.measure.windows import Window, is_whole
from overlapscope.model.trace import Trace


@dataclass(frozen=True)
class VerdictConfig:
    """Thresholds of the verdict.

    ``mentioned``: a time below this share of the wall time is not mentioned; runs scatter by about one percent.
    ``report_share``: perfect overlap that saves less than this share of the time cannot help, as in a diagnosis.
    """

    mentioned: float = 0.01
    report_share: float = DIAGNOSIS.report_share


Part = tuple[Activity, tuple[CopyGroup, ...], IdleByCause, Ceiling]


def verdict(
    trace: Trace, window: Window, devices: Sequence[Part], blocked_ns: int, config: VerdictConfig = VerdictConfig()
) -> str:
    """The overlap and the cost of the copies in this window, in words; "undefined" where overlap has no meaning.

    ``blocked_ns`` is the time for which the copy calls blocked the host, each call counted once.
    """
    groups = [group for _, copies, *_ in devices for group in copies]
    kernels = sum(activity.kernels.total_ns for activity, *_ in devices)
    if not devices or not (groups or kernels):
        return _nothing(trace, window)
    if not groups:
        return f"No copies{_missing_copies(trace)}: overlap is undefined."
    moved = f"{counted(sum(group.count for group in groups), 'copy', 'copies')} moved {_size(groups)}"
    total = sum(activity.copies.total_ns for activity, *_ in devices)
    if not kernels:
        return f"{moved} in {time(total)} and no kernel ran: overlap is undefined, nothing could hide them."
    hidden = sum(activity.overlap.total_ns for activity, *_ in devices)
    first = f"{moved} in {time(total)}: {share(hidden, total)} hidden under kernels, {time(total - hidden)} exposed."
    if trace.health.has("wrong-device-clock"):
        return f"{first} Some device timestamps come from another clock: dependencies cannot be determined."
    blocked = _blocked(groups, devices, window, blocked_ns, config)
    return " ".join([first, *blocked, *_ceiling([part for *_, part in devices], config)])


def _nothing(trace: Trace, window: Window) -> str:
    if trace.health.no_device_work:
        return f"No GPU work in this trace, so overlap is undefined: {trace.health.no_device_work}."
    where = "this trace" if is_whole(trace, window) else "this window"
    where = where if window.name is None else f"the range {window.name!r}"
    return f"No GPU work in {where}: overlap is undefined."


def _missing_copies(trace: Trace) -> str:
    if trace.health.has("whole-graph-trace"):
        return " are recorded (CUDA graphs were traced as a whole, copies inside them are not in the trace)"
    if trace.health.has("copies-not-recorded"):
        return " are recorded, though copy calls are"
    return ""


def _size(groups: list[CopyGroup]) -> str:
    known = [group.size_bytes for group in groups if group.size_bytes is not None]
    if not known:
        return "an unknown number of bytes"
    return size(sum(known)) + (" and more of unknown size" if any(group.unknown_size for group in groups) else "")


def _blocked(
    groups: list[CopyGroup], devices: Sequence[Part], window: Window, blocked_ns: int, config: VerdictConfig
) -> list[str]:
    """How long the copy calls blocked the host: copies that look hidden can delay kernels this way."""
    delayed = sum(gaps.sum_ns(Cause.COPY_CALL) for _, _, gaps, _ in devices)
    least = config.mentioned * window.wall_ns
    if blocked_ns <= least:
        return []
    whose = "Their calls" if sum(group.count for group in groups) > 1 else "Its call"
    text = f"{whose} blocked the host for {time(blocked_ns)}"
    if delayed <= max(least, blocked_ns / 2):  # mostly for other reasons: the findings say which
        return [text + "."]
    return [text + f" and delayed kernel launches: {time(delayed)} without a kernel."]


def _ceiling(devices: Sequence[Ceiling], config: VerdictConfig) -> list[str]:
    """That overlap cannot help, with what perfect overlap would give; of the device that is busy longest."""
    most = max(devices, key=lambda each: each.bound_ns)
    if most.above_ns >= config.report_share * most.now_ns:
        return []
    saved = f"{time(most.saving_ns)} of {time(most.now_ns)} ({share(most.saving_ns, most.now_ns)})"
    rest = "" if most.bound_by in (KERNELS, HOST) else "; only fewer bytes or faster copies help"
    return [f"Perfect overlap of copies would save at most {saved}: {most.limit}{rest}."]
