"""Predict what a change of the program would win."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from overlapscope.formatting import share
from overlapscope.measure.windows import Window, of_range, whole
from overlapscope.model.trace import Trace
from overlapscope.replay.bounds import with_less_order, with_more_order
from overlapscope.replay.build import graph_of
from overlapscope.replay.catalogue import changed
from overlapscope.replay.changes import Change, understood
from overlapscope.replay.config import DEFAULT, ReplayConfig
from overlapscope.replay.edits.common import Edited
from overlapscope.replay.engine import Replay, has_circle, replay
from overlapscope.replay.full_device import in_turns
from overlapscope.replay.graph import Graph
from overlapscope.replay.link import Link
from overlapscope.replay.moved import moved
from overlapscope.replay.prediction import Prediction, Without
from overlapscope.replay.profiler import Cost, Profiled
from overlapscope.replay.profiler_cost import profiler_cost


def what_if(
    trace: Trace,
    changes: Iterable[Change | str] | str,
    range: str | None = None,  # noqa: A002
    config: ReplayConfig = DEFAULT,
) -> Prediction:
    """Predict how long a window would take with some changes of the program.

    Args:
        trace: an opened trace.
        changes: what would be different: `Change` objects or their text, such as ``"pin"``, ``"prefetch=2"`` or
            ``"non-blocking:range=copy,stream=7"`` (also ``source=TEXT``, of Python frames).
        range: predict for the host ranges of this name; the whole trace otherwise.
        config: what the replay takes for granted.

    Returns:
        A `Prediction`: times of the window in ns, as the profiler makes them and, where the trace tells what that cost,
        without it; ``low`` and ``high`` where the trace leaves open what waits for what.

    Raises:
        ChangeNotUnderstood: a change is none that we know, or contradicts another.
        RangeNotFound: the trace has no such range.
    """
    wanted = understood(changes)
    window = whole(trace) if range is None else of_range(trace, range)
    return Base.of(trace, window, config).predict(wanted)


_TURNS = "kernels that fill a device run one after the other"


@dataclass(frozen=True, eq=False)
class Base:
    """A trace's graph, the same without what is known of the profiler, and what predictions have in common."""

    trace: Trace
    window: Window
    config: ReplayConfig
    graph: Graph
    link: Link
    replayed_ns: int
    profiler: Cost | None
    event_ns: float
    bare: Graph | None
    without_ns: int | None

    @classmethod
    def of(cls, trace: Trace, window: Window, config: ReplayConfig = DEFAULT) -> Base:
        """Make the graph and replay it as it is."""
        graph = graph_of(trace, config)
        link, profiled = Link.of(graph), Profiled.of(graph)
        replayed_ns = length_ns(replay(graph), window)
        cost = profiler_cost(profiled, partial(_played, link), config.profiler)
        bare = None if cost is None else profiled.without(cost)
        without_ns = None if bare is None else length_ns(_played(link, bare), window)
        if cost is not None and not cost.calibrated and without_ns == replayed_ns:
            cost = bare = without_ns = None  # nothing of what is known lies in the window
        event_ns = 0.0 if cost is None else profiled.event_ns(cost)
        return cls(trace, window, config, graph, link, replayed_ns, cost, event_ns, bare, without_ns)

    @property
    def unprofiled_ns(self) -> int | None:
        """How long the window takes without the profiler; None where only a part of its cost is known."""
        return self.without_ns if self.profiler is not None and self.profiler.calibrated else None

    @property
    def own_ns(self) -> int:
        """The time of the program itself: without what is known of the profiler."""
        return self.replayed_ns if self.without_ns is None else self.without_ns

    @property
    def error(self) -> float:
        """How far the unchanged replay is from the trace, as a share of it."""
        measured = self.window.wall_ns
        return abs(self.replayed_ns - measured) / measured if measured else 0.0

    def predict(self, changes: tuple[Change, ...], *, bounds: bool = True) -> Prediction:
        """Replay the graph with some changes; without ``bounds`` low and high are as predicted."""
        edited = changed(self.graph, changes, self.config)
        played = _played(self.link, edited.graph)
        predicted, low, high = self._lengths(self.graph, edited, played, bounds=bounds)
        without = self._without(changes, bounds=bounds)
        return Prediction(
            trace=self.trace,
            window=self.window,
            changes=changes,
            measured_ns=self.window.wall_ns,
            replayed_ns=self.replayed_ns,
            predicted_ns=predicted,
            low_ns=low,
            high_ns=high,
            unprofiled=None if self.unprofiled_ns is None else without,
            partly_unprofiled=without if self.unprofiled_ns is None else None,
            basis=(*edited.basis, *([_TURNS] if _turns(edited.graph, played) else []), *self._about_profiler),
            played=played,
        )

    def _lengths(self, before: Graph, edited: Edited, played: Replay, *, bounds: bool) -> tuple[int, int, int]:
        """How long the window takes after a change, at least and at most."""
        predicted = length_ns(played, self.window)
        if not bounds:
            return predicted, predicted, predicted
        after = edited.graph
        less = with_less_order(before, after, edited.kept)
        more = with_more_order(before, after, edited.doubtful, self.config)
        freer = less is not after or _turns(after, played)
        low = length_ns(self.link.replay(less), self.window) if freer else predicted
        high = predicted if more is after else length_ns(_played(self.link, more), self.window)
        return predicted, min(low, predicted), max(high, predicted)

    def _without(self, changes: tuple[Change, ...], *, bounds: bool) -> Without | None:
        if self.profiler is None or self.bare is None or self.without_ns is None:
            return None
        edited = changed(self.bare, changes, self.config)
        lengths = self._lengths(self.bare, edited, _played(self.link, edited.graph), bounds=bounds)
        return Without(self.event_ns, self.without_ns, *lengths)

    @property
    def _about_profiler(self) -> tuple[str, ...]:
        cost = self.profiler
        if not len(self.graph.calls):
            return ("there are no API calls in the trace, so all work begins when it did",)
        if cost is None:
            return ("the profiler's own cost is not known, and stays in",)
        less = f"{self.event_ns / 1e3:.1f} us less for each event that it recorded"
        if cost.calibrated:
            return (f"without the profiler: {less}", *self._about_pace, *self._about_the_rest)
        seen = f"what it recorded of itself, and {less}" if self.event_ns else "what it recorded of itself"
        return (f"of the profiler's cost only a part is known: {seen}",)

    @property
    def _about_the_rest(self) -> tuple[str, ...]:
        rest = self.profiler.unexplained if self.profiler is not None else 0.0
        if abs(rest) < self.config.profiler.worth_saying:
            return ()
        longer = "longer" if rest > 0 else "shorter"
        return (f"that makes it {share(abs(rest), 1)} {longer} than the steps were without the profiler",)

    @property
    def _about_pace(self) -> tuple[str, ...]:
        if self.profiler is None:
            return ()
        paces = {"the host works": self.profiler.pace, "pageable copies take": self.profiler.staging}
        return tuple(
            f"{what} {share(abs(1 - pace), 1)} {'less' if pace < 1 else 'more'} than while it was recorded"
            for what, pace in paces.items()
            if abs(1 - pace) >= self.config.profiler.telling
        )


def _played(link: Link, graph: Graph) -> Replay:
    """A replay in which kernels that fill a device run one after the other."""
    played = link.replay(graph)
    turns = in_turns(played)
    if not len(turns) or has_circle(ordered := graph.with_edges(graph.edges, turns)):
        return played
    return link.replay(ordered)


def _turns(graph: Graph, played: Replay) -> bool:
    """Whether kernels wait for their turn in a replay of this graph."""
    return len(played.graph.edges) > len(graph.edges)


def length_ns(played: Replay, window: Window) -> int:
    """How long a window takes in a replay."""
    trace = moved(played)
    if window.name is not None:
        return of_range(trace, window.name).wall_ns
    return whole(trace).wall_ns
