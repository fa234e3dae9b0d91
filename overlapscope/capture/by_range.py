"""Record occurrences of a range of a script as steps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from overlapscope.capture.annotate import profiler_name
from overlapscope.capture.late_start import LateStart
from overlapscope.capture.recorder import record
from overlapscope.capture.watch import watch_ranges

_MOST_NAMES = 12  # in a message
_PROFILER_STEP = "ProfilerStep#"
"""What the names of the ranges begin with that the profiler itself opens while it records."""


@contextmanager
def recording_by_range(recording: record, pattern: str) -> Iterator[None]:
    """Record the occurrences of a range as the steps of ``recording``, from the first that is opened.

    ``*`` and ``?`` in ``pattern`` stand for any text and any letter. Of matching ranges inside each other, the
    outermost counts.
    """
    occurrences = _Occurrences(recording, pattern)
    start = occurrences.start.ending(occurrences.nothing_matched)
    with start, watch_ranges(occurrences.opened, occurrences.closed):
        yield


class _Occurrences:
    """Counts the ranges of the main thread, and makes those that match steps."""

    def __init__(self, recording: record, pattern: str) -> None:
        self.start = LateStart(recording)
        self._recording, self._pattern = recording, profiler_name(pattern)
        self._matches = re.compile(_regular(self._pattern), re.DOTALL).fullmatch
        self._heard: Counter[str] = Counter()
        self._depth = 0

    def opened(self, name: str) -> None:
        if name.startswith(_PROFILER_STEP):
            return
        self._heard[name] += 1
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
        if not self._heard:
            there = "the script's main thread opened no range in this process; --steps auto finds steps by itself"
        else:
            names = [f"{name} ({count}x)" for name, count in self._heard.most_common(_MOST_NAMES)]
            more = len(self._heard) - len(names)
            there = f"the script's main thread opened: {', '.join(names)}" + (f", and {more} more" if more else "")
        return f"nothing was recorded: no range named {self._pattern!r}; {there}"

    def _is_meant(self, name: str) -> bool:
        return not name.startswith(_PROFILER_STEP) and self._matches(name) is not None


def _regular(pattern: str) -> str:
    """A pattern with ``*`` and ``?`` as a regular expression.

    >>> _regular("step?*")
    'step..*'
    """
    return "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in pattern)
