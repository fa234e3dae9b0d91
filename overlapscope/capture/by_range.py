"""Record occurrences of a range of a script as steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from overlapscope.capture.annotate import profiler_name
from overlapscope.capture.heard_ranges import PROFILER_STEP, HeardRanges
from overlapscope.capture.late_start import LateStart
from overlapscope.capture.recorder import record
from overlapscope.capture.watch import watch_ranges


@contextmanager
def recording_by_range(recording: record, pattern: str) -> Iterator[None]:
    """Record the occurrences of a range as the steps of ``recording``, from the first that is opened.

    ``*`` and ``?`` in ``pattern`` stand for any text and any letter. Of matching ranges inside each other, the
    outermost counts.
    """
    occurrences = _Occurrences(recording, pattern)
    recording.when_too_few = occurrences.too_few
    start = occurrences.start.ending(occurrences.nothing_matched)
    with start, watch_ranges(occurrences.opened, occurrences.closed, occurrences.heard.on_other):
        yield


class _Occurrences:
    """Counts the ranges of the main thread, and makes those that match steps."""

    def __init__(self, recording: record, pattern: str) -> None:
        self.start = LateStart(recording)
        self._recording, self._pattern = recording, profiler_name(pattern)
        self._matches = re.compile(_regular(self._pattern), re.DOTALL).fullmatch
        self.heard = HeardRanges()
        self._depth = 0

    def opened(self, name: str) -> None:
        self.heard.on_main(name)
        if self._is_meant(name):
            self._depth += 1
            if self._depth == 1:
                self.start.begin()

    def closed(self, name: str) -> None:
        if self._is_meant(name):
            self._depth -= 1
            if self._depth == 0:
                self._recording.marker = self._pattern
                self._recording.step()

    def nothing_matched(self) -> str:
        """A sentence with the ranges that there are."""
        there = self.heard.sentence() + ("" if self.heard else "; --steps auto finds steps by itself")
        return f"nothing was recorded: no range named {self._pattern!r}; {there}"

    def too_few(self, made: int, asked: int) -> str:
        """A sentence for a script that ended before the first occurrence to record."""
        return (
            f"nothing was recorded: the script ended after {made} of {asked} steps, ranges named {self._pattern!r}, "
            f"that --steps, --warmup and --unprofiled ask for; ask for fewer; {self.heard.sentence()}"
        )

    def _is_meant(self, name: str) -> bool:
        return not name.startswith(PROFILER_STEP) and self._matches(name) is not None


def _regular(pattern: str) -> str:
    """A pattern with ``*`` and ``?`` as a regular expression.

    >>> _regular("step?*")
    'step..*'
    """
    return "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in pattern)
