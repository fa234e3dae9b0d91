"""One sentence, or three, that say what the copies cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from overlapscope.diagnosis.causes import BEHIND_COPY, Cause, IdleByCause
from overlapscope.formatting import counted, share, size, time
from overlapscope.measure.devices import Activity
from overlapscope.measure.groups import CopyGroup
from overlapscope.measure.windows import Window
from overlapscope.model.trace import Trace


@dataclass(frozen=True)
class VerdictConfig:
    """What is worth a sentence.

    ``worth_saying``: the share of the wall time below which a loss is not mentioned; a run's own scatter
    is about one percent.
    """

    worth_saying: float = 0.01


_CAUSES = {
    (Cause.COPY_CALL,): "the launching thread was held inside a copy call",
    (Cause.SYNCHRONISATION,): "the launching thread was synchronising",
    (Cause.ALLOCATION,): "the launching thread was allocating or freeing memory",
    (Cause.API_CALL,): "the launching thread was inside other CUDA calls",
    (Cause.HOST_WORK,): "the host was at other work and launched late",
    (Cause.HOST_NOT_RECORDED,): "nothing of the launching thread was recorded",
    (*BEHIND_COPY, Cause.LAUNCH_LATENCY, Cause.WAIT_NOT_RECORDED, Cause.OTHER_DEVICE, Cause.BACK_TO_BACK): (
        "the kernel was queued and waited on the device (stream order, an event, another engine)"
    ),
    (Cause.UNKNOWN,): "the trace does not say what launched the kernel",
}

Part = tuple[Activity, tuple[CopyGroup, ...], IdleByCause]


def verdict(
    trace: Trace, window: Window, devices: Sequence[Part], blocked_ns: int, config: VerdictConfig = VerdictConfig()
) -> str:
    """What the copies cost in this window, in words; "undefined" where overlap has no meaning.

    ``blocked_ns`` is the host time that their calls held, each call counted once.
    """
    groups = [group for _, copies, _ in devices for group in copies]
    kernels = sum(activity.kernels.total_ns for activity, _, _ in devices)
    if not devices or not (groups or kernels):
        return _nothing(trace, window)
    if not groups:
        return f"No copies{_missing_copies(trace)}: overlap is undefined."
    moved = f"{counted(sum(group.count for group in groups), 'copy', 'copies')} moved {_size(groups)}"
    total = sum(activity.copies.total_ns for activity, _, _ in devices)
    if not kernels:
        return f"{moved} in {time(total)} and no kernel ran: overlap is undefined, there was nothing to hide behind."
    hidden = sum(activity.overlap.total_ns for activity, _, _ in devices)
    first = f"{moved} in {time(total)}: {share(hidden, total)} under kernels, {time(total - hidden)} exposed."
    if trace.health.has("far-from-host"):
        return f"{first} Some device times are of another clock: what waited for what cannot be told."
    return " ".join([first, *_held(groups, devices, window, blocked_ns, config), *_main_gap(devices, window, config)])


def _nothing(trace: Trace, window: Window) -> str:
    if trace.health.has("device-work-lost"):
        return "The GPU's records are missing from this trace: overlap is undefined. Record it again."
    if trace.health.has("device-work-not-understood"):
        return "This trace's device work is of a kind that is not understood: overlap is undefined."
    where = "this trace" if window.name is None else f"the range {window.name!r}"
    return f"No GPU work in {where}: overlap is undefined."


def _missing_copies(trace: Trace) -> str:
    if trace.health.has("whole-graph-trace"):
        return " are recorded (CUDA graphs were traced whole, copies inside them are not in the file)"
    if trace.health.has("copies-not-recorded"):
        return " are recorded, though copy calls are"
    return ""


def _size(groups: list[CopyGroup]) -> str:
    known = [group.size_bytes for group in groups if group.size_bytes is not None]
    if not known:
        return "an unknown number of bytes"
    return size(sum(known)) + (" and more of unknown size" if any(group.unsized for group in groups) else "")


def _held(
    groups: list[CopyGroup], devices: Sequence[Part], window: Window, held: int, config: VerdictConfig
) -> list[str]:
    """The trap: copies that look hidden while their calls hold the host and kernels wait for it."""
    waited = sum(gaps.sum_ns(Cause.COPY_CALL) for _, _, gaps in devices)
    least = config.worth_saying * window.wall_ns
    if held <= least:
        return []
    whose = "Their calls" if sum(group.count for group in groups) > 1 else "Its call"
    text = f"{whose} held the host for {time(held)}"
    if waited <= least:
        return [text + ", and no kernel had to wait for that."]
    return [text + f", and kernels were launched late for it: {time(waited)} without one."]


def _main_gap(devices: Sequence[Part], window: Window, config: VerdictConfig) -> list[str]:
    """The largest cause of time without a kernel, where the sentence before has not said it."""
    totals = {causes: sum(gaps.sum_ns(*causes) for _, _, gaps in devices) for causes in _CAUSES}
    name = max(totals, key=lambda causes: totals[causes])
    if name == (Cause.COPY_CALL,) or totals[name] <= config.worth_saying * window.wall_ns:
        return []
    everything = sum(gaps.total_ns for _, _, gaps in devices)
    return [f"Of {time(everything)} without a kernel, for {time(totals[name])} {_CAUSES[name]}."]
