"""Which recording would make a wide interval narrower: by the reason that adds most to it."""

from __future__ import annotations

from overlapscope.model.trace import Trace
from overlapscope.whatif.uncertainty import Estimate, Reason

_TIMED = "a recording by `overlapscope record --unprofiled 10`, which times the steps without the profiler"
_CONSUMERS = "a recording by `overlapscope record`, which notes the operators that use each copy"
_BY = {
    Reason.ORDER: "a recording after the fix: nothing recorded before it tells in which order the moved work will run",
    Reason.FIX: "naming the other changes that the fix makes, or a recording after it",
    Reason.PROFILER: _TIMED,
    Reason.COMPANY: "a recording after the fix, whose kernels run beside the copies",
    Reason.HOST: "more steps, recorded and timed on a host with nothing else to do (`--steps 20 --unprofiled 20`)",
    Reason.LINK: "a recording with pinned copies of these sizes, on a host with nothing else to do",
    Reason.DEVICE: "more steps, recorded after the GPU has warmed up",
}


def narrower(found: Estimate, trace: Trace, wide: float) -> str | None:
    """The recording that helps against what adds most to an interval; None where that is narrower than ``wide``."""
    if found.width <= wide or found.widest is None:
        return None
    recording = trace.metadata.recording
    if found.widest is Reason.ORDER and (recording is None or recording.copy_consumers is None):
        return _CONSUMERS
    return _BY[found.widest]
