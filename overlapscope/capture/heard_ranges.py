"""The ranges that a script opened, by thread and name, for messages."""

from __future__ import annotations

from collections import Counter

_MOST_NAMES = 12  # in a message
PROFILER_STEP = "ProfilerStep#"
"""What the names of the ranges begin with that the profiler itself opens while it records."""


class HeardRanges:
    """Counts the ranges of the main thread, and those of other threads, which are never steps."""

    def __init__(self) -> None:
        self._main: Counter[str] = Counter()
        self._others: Counter[str] = Counter()

    def on_main(self, name: str) -> None:
        """Count a range of the main thread, unless it is the profiler's own."""
        if not name.startswith(PROFILER_STEP):
            self._main[name] += 1

    def on_other(self, name: str) -> None:
        """Count a range of another thread."""
        self._others[name] += 1

    def sentence(self) -> str:
        """Which ranges there were, and which of them are not counted."""
        if self._main:
            there = f"the script's main thread opened: {_listed(self._main)}"
        else:
            there = "the script's main thread opened no range in this process"
        if not self._others:
            return there
        return f"{there}; only ranges of the main thread are counted, other threads opened: {_listed(self._others)}"

    def __bool__(self) -> bool:
        return bool(self._main or self._others)


def _listed(heard: Counter[str]) -> str:
    names = [f"{name} ({count}x)" for name, count in heard.most_common(_MOST_NAMES)]
    more = len(heard) - len(names)
    return ", ".join(names) + (f", and {more} more" if more else "")
