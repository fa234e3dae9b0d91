"""A change of the program: its name, to what it applies, and the editor that keeps a graph and its trace in step."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import OWN_DURATION, WAITS, DependencyKind
from overlapscope.errors import ChangeNotUnderstood
from overlapscope.measure.grouping import at, with_columns
from overlapscope.measure.places import innermost, named
from overlapscope.measure.windows import Window, rows_called
from overlapscope.model.columns import NO_ID, Bool, Int8, Int32, Int64
from overlapscope.model.trace import Trace


@dataclass(frozen=True, eq=False)
class Where:
    """The copies and calls to which a change applies: masks over rows of copies and rows of api_calls."""

    copies: Bool
    calls: Bool

    def work(self, graph: Graph) -> Int64:
        """The copies as work of a graph."""
        return graph.work_of_rows(self.copies)


@dataclass(eq=False)
class Editor:
    """Changes are made one after the other; row numbers of dependencies hold until some are removed or added.

    Attributes:
        graph: as changed so far.
        assumptions: what the result rests on, in words.
        granted: those that make wrong results where they do not hold.
        in_order: the rules whose races are in order.
        possible: dependencies that may have to stay; the upper bound has them.
        avoidable: dependencies that stay and may not have to; the lower bound has them not.
        brought: rows of copies whose values come with another copy.
    """

    graph: Graph
    assumptions: list[str] = field(default_factory=list)
    granted: list[str] = field(default_factory=list)
    in_order: tuple[str, ...] = ()
    possible: Dependencies = field(default_factory=Dependencies.none)
    avoidable: Dependencies = field(default_factory=Dependencies.none)
    brought: Int64 = field(default_factory=lambda: np.empty(0, np.int64))

    def copy(self) -> Editor:
        """Another one that goes on from here."""
        return replace(self, assumptions=list(self.assumptions), granted=list(self.granted))

    @property
    def dependencies(self) -> Dependencies:
        """The dependencies as they are now."""
        return self.graph.dependencies

    @property
    def trace(self) -> Trace:
        """The trace as it is now."""
        return self.graph.trace

    def set_weights(self, weight_ns: Int64) -> None:
        """Give all dependencies these weights, in ns."""
        self.graph = replace(self.graph, dependencies=replace(self.dependencies, weight_ns=weight_ns))

    def limit_weights(self, rows: Int64 | Bool, most_ns: Int64 | int) -> None:
        """Let dependencies weigh at most this, in ns."""
        weight = self.dependencies.weight_ns.copy()
        weight[rows] = np.minimum(weight[rows], most_ns)
        self.set_weights(weight)

    def set_sources(self, rows: Int64, source: Int64, weight_ns: Int64 | int | None = None) -> None:
        """Let dependencies come from other nodes."""
        sources, weight = self.dependencies.source.copy(), self.dependencies.weight_ns.copy()
        sources[rows] = source
        if weight_ns is not None:
            weight[rows] = weight_ns
        self.graph = replace(self.graph, dependencies=replace(self.dependencies, source=sources, weight_ns=weight))

    def issue(self, work: Int64, nodes: Int64, weight_ns: int | None = None) -> None:
        """Let work be issued by other nodes, after this time in ns, where its launch is known."""
        launch = self.graph.into(self.graph.work_start(work), DependencyKind.LAUNCH)
        self.set_sources(launch[launch != NO_ID], nodes[launch != NO_ID], weight_ns)

    def remove(self, rows: Bool) -> None:
        """Drop some dependencies."""
        self.graph = self.graph.with_dependencies(self.dependencies.take(~rows))

    def add(self, *parts: Dependencies) -> None:
        """Add dependencies."""
        self.graph = self.graph.with_dependencies(self.dependencies, *parts)

    def set_copies(self, **columns: Int64 | Int32 | Int8) -> None:
        """Give the trace's copies other columns."""
        self.graph = replace(self.graph, trace=replace(self.trace, copies=with_columns(self.trace.copies, **columns)))

    def assume(self, *texts: str) -> None:
        """Note what the result rests on, each text once."""
        self.assumptions += [text for text in dict.fromkeys(texts) if text not in self.assumptions]

    def grant(self, *texts: str) -> None:
        """Note what makes wrong results where it does not hold, each text once."""
        self.granted += [said for text in texts if (said := f"assumes that {text}") not in self.granted]

    def without_waits(self, calls: Int64, most_ns: int = 0) -> None:
        """Let some calls wait for nothing and take at most this, in ns."""
        into = np.isin(self.dependencies.target, self.graph.call_end(calls))
        self.limit_weights(into & self.dependencies.of_kind(*OWN_DURATION), most_ns)
        self.remove(into & self.dependencies.of_kind(*WAITS))

    def calls_of(self, copies: Bool) -> Int64:
        """The graph's calls that issued some rows of copies."""
        calls = np.unique(self.graph.call_of[self.trace.copies.call[copies]])
        return np.setdiff1d(calls, NO_ID)


@dataclass(frozen=True)
class Bounds:
    """The order of moved work that a trace leaves open: dependencies that may exist, and some that may be unneeded."""

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

    limits: ClassVar[tuple[str, ...]] = ("within", "stream", "source")
    """The fields that say to what it applies, as text may give them."""
    name: ClassVar[str]
    """What it is called on the command line."""
    old_name: ClassVar[str | None] = None
    """What it was called before, still accepted."""
    option: ClassVar[str | None] = None
    """The field that takes a number, as in ``prefetch=2``."""
    changes_calls: ClassVar[bool] = False
    """Whether it changes calls rather than copies."""
    one_by_one: ClassVar[bool] = False
    """Whether several of it are made one by one: what each is about stays apart."""
    of_findings_only: ClassVar[bool] = False
    """Whether a plan tries it only where a finding has it: it takes out of a window what belongs to others,
    such as the first copies of a prefetch or the allocations of setup."""
    form_of: ClassVar[str] = ""
    """The edit of which it is one form: a plan has at most one of them."""
    condition: ClassVar[str] = ""
    """When the program allows it, in at most ten words, where a trace cannot tell that."""
    needs_order: ClassVar[bool] = False
    """Whether it moves copies or takes waits out, so that a race in the program may show more often."""
    only_removes: ClassVar[bool] = False
    """Whether it only takes waits and work away, so that nothing becomes slower by it."""

    def __post_init__(self) -> None:
        """Raise `ChangeNotUnderstood` for a change that makes no sense."""
        if self.stream is not None and self.changes_calls:
            raise ChangeNotUnderstood(f"{self.name} is about calls, not streams: limit it by within or source")

    @property
    def value(self) -> float | None:
        """The number that it takes; None where it takes none."""
        return None if self.option is None else getattr(self, self.option)

    @classmethod
    def page(cls) -> str:
        """The explanation of the change: the docstring of its file."""
        return inspect.cleandoc(getattr(inspect.getmodule(cls), "__doc__", None) or "")

    def __str__(self) -> str:
        head = self.name if self.value is None else f"{self.name}={self.value:g}"
        places = {key: getattr(self, key) for key in self.limits}
        where = ",".join(f"{key}={value}" for key, value in places.items() if value is not None)
        return f"{head}:{where}" if where else head

    def apply(self, editor: Editor, where: Where) -> None:
        """Make the change in the editor's graph."""
        raise NotImplementedError

    def bounds(self, before: Graph, after: Graph) -> Bounds | None:
        """The order that the change leaves open beyond what `apply` has noted; None for nothing."""
        del before, after
        return None

    def may_bring(self, trace: Trace) -> tuple[Change, ...]:
        """Other changes that the same edit of a program often makes too; the lower bound has them."""
        del trace
        return ()

    def concerns(self, trace: Trace) -> Where:
        """The rows of ``trace.copies`` and of ``trace.api_calls`` to which the change applies."""
        calls = self._calls(trace)
        copies = at(calls, trace.copies.call, self.within is None and self.source is None)
        if self.stream is not None:
            copies &= trace.copies.stream == self.stream
        if self.copies is not None:
            copies &= np.isin(np.arange(len(trace.copies)), self.copies)
        return Where(copies, calls)

    def _calls(self, trace: Trace) -> Bool:
        table = trace.api_calls
        result = np.ones(len(table), np.bool_) if self.calls is None else np.isin(np.arange(len(table)), self.calls)
        if self.within is not None:
            ranges = trace.ranges.take(rows_called(trace, self.within))
            window = Window(self.within, ranges.start_ns, ranges.end_ns, ranges.process)
            result &= window.touches(table.process, table.start_ns, table.start_ns)
        if self.source is not None:
            frames = trace.frames.take(named(trace.frames, re.compile(re.escape(self.source))))
            result &= innermost(frames, table.process, table.thread, table.start_ns) != NO_ID
        return result


_NEXT_PLACE = re.compile(r",(?=\s*\w+\s*=)")  # names may have commas


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
    options: dict[str, str | float] = {"within" if key == "range" else key: given for key, given in places.items()}
    if unknown := options.keys() - set(kind.limits):
        *known, last = kind.limits
        raise ChangeNotUnderstood(f"{text!r}: {', '.join(sorted(unknown))} is none of {', '.join(known)} and {last}")
    if "stream" in options:
        options["stream"] = _number(int, places["stream"], text)
    if value:
        if kind.option is None:
            raise ChangeNotUnderstood(f"{kind.name} takes no number")
        options[kind.option] = _number(float, value, text)
    return kind(**options)  # type: ignore[arg-type]


def _place(part: str, text: str) -> tuple[str, str]:
    key, sign, value = part.partition("=")
    if not sign or not value:
        raise ChangeNotUnderstood(f"{text!r}: {part!r} is not of the form KEY=VALUE")
    return key.strip(), value.strip()


def _number(kind: type[int] | type[float], value: str, text: str) -> float:
    try:
        return kind(value)
    except ValueError:
        raise ChangeNotUnderstood(f"{text!r}: {value!r} is no {'whole ' * (kind is int)}number") from None
