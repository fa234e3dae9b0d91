"""Which recording would make a wide interval narrower: by the reasons that add most to it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from overlapscope.calibration.schema import Calibration
from overlapscope.model.trace import Trace
from overlapscope.whatif.changes.side_stream import UNKNOWN_CONSUMERS
from overlapscope.whatif.d2h_consumers import UNKNOWN_READER
from overlapscope.whatif.uncertainty import Estimate, Reason

_TIMED = "a recording by `overlapscope record --unprofiled 10`, which times the steps without the profiler"
_WARM = "a recording after more warm-up steps (`--warmup 10`): those recorded took longer than the profiler explains"
_CONSUMERS = "a recording by `overlapscope record`, which notes the operators that use each copy"
_AFTER = "a recording after the fix: nothing recorded before it tells"
_ORDER = f"{_AFTER} in which order the moved work will run"
_FIX = "naming the other changes that the fix makes, or a recording after it"
_CONTENTION = "a recording after the fix, whose kernels run beside the copies"
_LINK = "a recording on a host with nothing else to do: copies of one size took times that differ much"
_SIZES = "a recording that has the sizes of copies"
_PACE = f"{_AFTER} the pace of the host in another run"

_READERS = (UNKNOWN_CONSUMERS, UNKNOWN_READER)


def narrower(bases: Sequence[Estimate], assumptions: Collection[str], trace: Trace, wide: float) -> str | None:
    """The recording that helps against what adds most to the first of some intervals that is wider than ``wide``.

    What differs from run to run by chance no recording tells: then it is the one that helps against the next reason.
    None where no interval is that wide.
    """
    found = next((each for each in bases if each.width > wide), None)
    if found is None:
        return None
    parts = sorted(found.parts, key=lambda part: part.less_ns + part.more_ns, reverse=True)
    unread = any(text.endswith(_READERS) for text in assumptions)
    advice = (_against(part.reason, trace.metadata.recording, unread=unread) for part in parts)
    return next(filter(None, advice), _PACE if parts else None)


def _against(reason: Reason, recording: Calibration | None, *, unread: bool) -> str | None:
    """What helps against one reason; None where nothing does that can be recorded.

    ``unread`` says that it is not known who reads copies, which recordings note.
    """
    timed = recording is not None and None not in (recording.profiler_factor, recording.issue_profiled)
    noted = recording is not None and recording.copy_consumers is not None
    return {
        Reason.ORDER: _CONSUMERS if unread and not noted else _ORDER,
        Reason.FIX: _FIX,
        Reason.PROFILER: _WARM if timed else _TIMED,
        Reason.CONTENTION: _CONTENTION,
        Reason.HOST: None if timed else _TIMED,
        Reason.LINK: _LINK,
        Reason.SIZE: _SIZES,
    }.get(reason)
