"""A change of the program: its name, to what it applies, and what it does to a graph."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.errors import ChangeNotUnderstood
from overlapscope.measure.places import innermost
from overlapscope.measure.spans import contains, union
from overlapscope.measure.windows import rows_called
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.trace import Trace
from overlapscope.whatif.config import SimulationConfig
from overlapscope.whatif.editor import Editor, Where


@dataclass(frozen=True)
class Bounds:
    """What the order of moved work leaves open: dependencies that may be there too, and some that may not be needed."""

    possible: Dependencies
    avoidable: Dependencies


@dataclass(frozen=True)
class Change:
    """One change of the program. A subclass in a file of its own is all that a new one needs, and a catalogue line.

    Attributes:
        within: only what is issued within host ranges of this name, or matching it, where it has ``*`` or ``?``.
        stream: only copies of this stream.
        source: only what is issued in Python frames whose name contains this.
        copies: only these rows of copies.
        calls: only these rows of api_calls.
    """

    within: str | None = None
    stream: int | None = None
    source: str | None = None
    copies: tuple[int, ...] | None = None
    calls: tuple[int, ...] | None = None

    name: ClassVar[str]
    """What it is called on the command line."""
    old_name: ClassVar[str | None] = None
    """What it was called before, still accepted."""
    option: ClassVar[str | None] = None
    """The field that takes a number, as in ``prefetch=2``."""
    about_calls: ClassVar[bool] = False
    """Whether it changes calls rather than copies."""
    of_findings_calls: ClassVar[bool] = False
    """Whether, for a finding, it is about the calls of that finding only."""
    keeps_apart: ClassVar[bool] = False
    """Whether several of it are made one by one: what each is about stays apart."""
    of_any_plan: ClassVar[bool] = False
    """Whether a plan tries it though no finding has it: what it takes away need not be in the loop."""
    often_followed_by: ClassVar[tuple[str, ...]] = ()
    """Changes that become possible by it, though the trace cannot show yet that they are needed."""
    needs_order: ClassVar[bool] = False
    """Whether it moves copies or takes waits out, so that a race in the program may show more often."""
    only_removes: ClassVar[bool] = False
    """Whether it only takes waits and work away, so that nothing becomes slower by it."""

    def __post_init__(self) -> None:
        """Raise `ChangeNotUnderstood` for a change that makes no sense."""
        if self.stream is not None and self.about_calls:
            raise ChangeNotUnderstood(f"{self.name} is about calls, not streams: limit it by within or source")

    @property
    def value(self) -> float | None:
        """The number that it takes; None where it takes none."""
        return None if self.option is None else getattr(self, self.option)

    @classmethod
    def page(cls) -> str:
        """Its explanation."""
        return inspect.cleandoc(getattr(inspect.getmodule(cls), "__doc__", None) or "")

    def __str__(self) -> str:
        head = self.name if self.value is None else f"{self.name}={self.value:g}"
        places = {"within": self.within, "stream": self.stream, "source": self.source}
        where = ",".join(f"{key}={value}" for key, value in places.items() if value is not None)
        return f"{head}:{where}" if where else head

    def apply(self, editor: Editor, where: Where) -> None:
        """Make it."""
        raise NotImplementedError

    def bounds(self, before: Graph, after: Graph, config: SimulationConfig) -> Bounds | None:
        """What it leaves open beyond what `apply` has noted; None for nothing."""
        del before, after, config
        return None

    def may_bring(self, trace: Trace) -> tuple[Change, ...]:
        """Other changes that the same edit of a program often makes too; the lower bound has them."""
        del trace
        return ()

    def concerns(self, trace: Trace) -> Where:
        """To which rows of ``trace.copies`` and of ``trace.api_calls`` it applies."""
        calls = self._calls(trace)
        copies = np.append(calls, self.within is None and self.source is None)[trace.copies.call]
        if self.stream is not None:
            copies &= trace.copies.stream == self.stream
        if self.copies is not None:
            copies &= np.isin(np.arange(len(trace.copies)), self.copies)
        return Where(copies, calls)

    def _calls(self, trace: Trace) -> Bool:
        table = trace.api_calls
        result = np.ones(len(table), np.bool_) if self.calls is None else np.isin(np.arange(len(table)), self.calls)
        if self.within is not None:
            rows = np.zeros(len(trace.ranges), np.bool_)
            rows[rows_called(trace, self.within)] = True
            result &= _inside(trace, rows, table.process, table.start_ns)
        if self.source is not None:
            names = [number for number, name in enumerate(trace.names.values) if self.source in name]
            frames = trace.frames.take(np.isin(trace.frames.name_id, names))
            result &= innermost(frames, table.process, table.thread, table.start_ns) != NO_ID
        return result


def _inside(trace: Trace, rows: Bool, process: Int64, moment_ns: Int64) -> Bool:
    """Which times of processes lie in some of the ranges."""
    result = np.zeros(len(moment_ns), np.bool_)
    for owner in np.unique(process).tolist():
        mine, own = process == owner, rows & (trace.ranges.process == owner)
        spans = union(trace.ranges.start_ns[own], trace.ranges.end_ns[own])
        result[mine] = contains(spans, moment_ns[mine], moment_ns[mine])
    return result


_NEXT_PLACE = re.compile(r",(?=\s*\w+\s*=)")  # names may have commas
_PLACES = {"within": "within", "range": "within", "stream": "stream", "source": "source"}


def parsed(kinds: tuple[type[Change], ...], text: str) -> Change:
    """Read ``NAME[=NUMBER][:within=NAME][,stream=N][,source=TEXT]``; ``range=`` means ``within=`` too.

    Raises:
        ChangeNotUnderstood: it is not of this form, or there is no such change.
    """
    head, _, where = text.partition(":")
    name, _, value = head.strip().partition("=")
    kind = next((each for each in kinds if name in (each.name, each.old_name)), None)
    if kind is None:
        raise ChangeNotUnderstood(f"no change {name!r}: there are {', '.join(each.name for each in kinds)}")
    places = dict(_place(part, text) for part in _NEXT_PLACE.split(where) if part)
    if unknown := places.keys() - _PLACES.keys():
        raise ChangeNotUnderstood(f"{text!r}: {', '.join(sorted(unknown))} is none of within, stream and source")
    options: dict[str, str | float] = {_PLACES[key]: given for key, given in places.items()}
    if "stream" in options:
        options["stream"] = _whole(places["stream"], text)
    if value:
        if kind.option is None:
            raise ChangeNotUnderstood(f"{kind.name} takes no number")
        options[kind.option] = _number(value, text)
    missing = kind.option is not None and not value and _required(kind)
    if missing:
        raise ChangeNotUnderstood(f"{kind.name} needs a number, such as {kind.name}=50")
    return kind(**options)  # type: ignore[arg-type]


def _required(kind: type[Change]) -> bool:
    return any(entry.name == kind.option and not isinstance(entry.default, int | float) for entry in fields(kind))


def _place(part: str, text: str) -> tuple[str, str]:
    key, sign, value = part.partition("=")
    if not sign or not value:
        raise ChangeNotUnderstood(f"{text!r}: {part!r} is not of the form KEY=VALUE")
    return key.strip(), value.strip()


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
