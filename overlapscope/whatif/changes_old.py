"""What would be different in the program, and to which of its copies and calls that applies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from overlapscope.errors import ChangeNotUnderstood
from overlapscope.measure.places import innermost
from overlapscope.measure.spans import contains, union
from overlapscope.measure.windows import rows_called
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.trace import Trace

VALUES = {"prefetch": 1.0, "faster-link": None}
"""Changes that take a number, and what it is when none is given (None: it has to be)."""
_EXAMPLES = {"prefetch": 1, "faster-link": 50}
_LEAST_GB_S = 1e-3
_NEXT_PLACE = re.compile(r",(?=\s*\w+\s*=)")  # names may have commas
_ABOUT_CALLS = ("graph", "preallocate")
NAMES = (
    "pin",
    "non-blocking",
    "side-stream",
    "prefetch",
    "no-host-read",
    "preallocate",
    "coalesce",
    "faster-link",
    "graph",
)


@dataclass(frozen=True)
class Change:
    """One change of the program.

    Attributes:
        name: one of `NAMES`.
        value: the number of steps of ``prefetch``, the GB/s of ``faster-link``.
        range: only what is issued within host ranges of this name, or matching it, where it has ``*`` or ``?``.
        stream: only copies of this stream.
        source: only what is issued in Python frames whose name contains this.
        copies: only these rows of copies.
    """

    name: str
    value: float | None = None
    range: str | None = None
    stream: int | None = None
    source: str | None = None
    copies: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Raise `ChangeNotUnderstood` for a change that makes no sense."""
        if self.name not in NAMES:
            raise ChangeNotUnderstood(f"no change {self.name!r}: there are {', '.join(NAMES)}")
        if self.name not in VALUES and self.value is not None:
            raise ChangeNotUnderstood(f"{self.name} takes no number")
        if self.name in VALUES and not _sensible(self.name, self.value):
            raise ChangeNotUnderstood(f"{self.name} needs a number, such as {self.name}={_EXAMPLES[self.name]}")
        if self.stream is not None and self.name in _ABOUT_CALLS:
            raise ChangeNotUnderstood(f"{self.name} is about calls, not streams: limit it by range or source")

    @classmethod
    def parse(cls, text: str) -> Change:
        """Read ``NAME[=VALUE][:range=NAME][,stream=N][,source=TEXT]``.

        >>> Change.parse("pin:range=copy,stream=13").stream
        13
        >>> Change.parse("prefetch=2").value
        2.0
        >>> Change.parse("pin:source=f(a, b),stream=7").source
        'f(a, b)'

        Raises:
            ChangeNotUnderstood: it is not of this form, or there is no such change.
        """
        head, _, where = text.partition(":")
        name, _, value = head.strip().partition("=")
        places = dict(_place(part, text) for part in _NEXT_PLACE.split(where) if part)
        if unknown := places.keys() - {"range", "stream", "source"}:
            raise ChangeNotUnderstood(f"{text!r}: {', '.join(sorted(unknown))} is none of range, stream and source")
        number = _number(value, text) if value else VALUES.get(name)
        stream = _whole(places["stream"], text) if "stream" in places else None
        return cls(name, number, range=places.get("range"), stream=stream, source=places.get("source"))

    def __str__(self) -> str:
        head = self.name if self.value is None else f"{self.name}={self.value:g}"
        places = {"range": self.range, "stream": self.stream, "source": self.source}
        where = ",".join(f"{key}={value}" for key, value in places.items() if value is not None)
        return f"{head}:{where}" if where else head

    def concerns(self, trace: Trace) -> tuple[Bool, Bool]:
        """Which rows of ``trace.copies`` and of ``trace.api_calls`` it is about."""
        calls = _calls(self, trace)
        copies = np.append(calls, self.range is None and self.source is None)[trace.copies.call]
        if self.stream is not None:
            copies &= trace.copies.stream == self.stream
        if self.copies is not None:
            copies &= np.isin(np.arange(len(trace.copies)), self.copies)
        return copies, calls


def understood(entries: Iterable[Change | str] | str) -> tuple[Change, ...]:
    """Changes as they are written or made, each once.

    >>> [str(change) for change in understood(["pin", "prefetch", "pin"])]
    ['pin', 'prefetch=1']

    Raises:
        ChangeNotUnderstood: there is no such change, or two of them contradict each other.
    """
    several = (entries,) if isinstance(entries, str) else entries
    changes = dict.fromkeys(Change.parse(entry) if isinstance(entry, str) else entry for entry in several)
    of_same: dict[Change, Change] = {}
    for change in changes:
        other = of_same.setdefault(replace(change, value=_EXAMPLES.get(change.name)), change)
        if other is not change:
            raise ChangeNotUnderstood(f"{other} and {change} contradict each other")
    return tuple(changes)


def _calls(change: Change, trace: Trace) -> Bool:
    table = trace.api_calls
    result = np.ones(len(table), np.bool_)
    if change.range is not None:
        rows = np.zeros(len(trace.ranges), np.bool_)
        rows[rows_called(trace, change.range)] = True
        result &= _within(trace, rows, table.process, table.start_ns)
    if change.source is not None:
        names = [number for number, name in enumerate(trace.names.values) if change.source in name]
        frames = trace.frames.take(np.isin(trace.frames.name_id, names))
        result &= innermost(frames, table.process, table.thread, table.start_ns) != NO_ID
    return result


def _within(trace: Trace, rows: Bool, process: Int64, moment_ns: Int64) -> Bool:
    """Which moments of processes lie in some of the ranges."""
    result = np.zeros(len(moment_ns), np.bool_)
    for owner in np.unique(process).tolist():
        mine, own = process == owner, rows & (trace.ranges.process == owner)
        spans = union(trace.ranges.start_ns[own], trace.ranges.end_ns[own])
        result[mine] = contains(spans, moment_ns[mine], moment_ns[mine])
    return result


def _place(part: str, text: str) -> tuple[str, str]:
    key, sign, value = part.partition("=")
    if not sign or not value:
        raise ChangeNotUnderstood(f"{text!r}: {part!r} is not of the form KEY=VALUE")
    return key.strip(), value.strip()


def _sensible(name: str, value: float | None) -> bool:
    if value is None or not np.isfinite(value):
        return False
    return (value >= 1 and value == int(value)) if name == "prefetch" else value >= _LEAST_GB_S


def _number(value: str, text: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ChangeNotUnderstood(f"{text!r}: {value!r} is no number") from None


def _whole(value: str, text: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ChangeNotUnderstood(f"{text!r}: {value!r} is no whole number") from None
