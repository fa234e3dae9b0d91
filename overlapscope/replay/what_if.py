"""Predict what a change of the program would win."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from overlapscope.measure.windows import Window, between, of_range, whole
from overlapscope.model.trace import Trace
from overlapscope.replay.bounds import with_less_order, with_more_order
from overlapscope.replay.build import graph_of
from overlapscope.replay.catalogue import changed
from overlapscope.replay.changes import Change
from overlapscope.replay.config import DEFAULT, ReplayConfig
from overlapscope.replay.engine import Replay, replay
from overlapscope.replay.graph import Graph
from overlapscope.replay.moved import moved
from overlapscope.replay.prediction import Prediction, Without
from overlapscope.replay.profiler import EventCost, event_cost, without_profiler


def what_if(
    trace: Trace,
    changes: Iterable[Change | str] | str,
    range: str | None = None,  # noqa: A002
    config: ReplayConfig = DEFAULT,
) -> Prediction:
    """Predict how long a window would take with some changes of the program.

    Args:
        trace: an opened trace.
        changes: what would be different: `Change` objects or their text, such as ``"pin"`` or
            ``"non-blocking:range=copy"``.
        range: predict for the host ranges of this name.
        config: what the replay takes for granted.

    Raises:
        ChangeNotUnderstood: a change is none that we know.
        RangeNotFound: the trace has no such range.
    """
    entries = (changes,) if isinstance(changes, str) else changes
    wanted = tuple(Change.parse(entry) if isinstance(entry, str) else entry for entry in entries)
    window = whole(trace) if range is None else of_range(trace, range)
    return Base.of(trace, window, config).predict(wanted)


@dataclass(frozen=True, eq=False)
class Base:
    """A trace's graph, and what predictions from it have in common."""

    trace: Trace
    window: Window
    config: ReplayConfig
    graph: Graph
    replayed_ns: int
    profiler: EventCost | None
    without_ns: int | None

    @classmethod
    def of(cls, trace: Trace, window: Window, config: ReplayConfig = DEFAULT) -> Base:
        """Make the graph and replay it as it is."""
        graph = graph_of(trace, config)
        replayed_ns, cost = length_ns(replay(graph), window), event_cost(graph)
        without_ns = None if cost is None else length_ns(replay(without_profiler(graph, cost.event_ns)), window)
        if cost is not None and not cost.calibrated and without_ns == replayed_ns:
            cost = without_ns = None  # nothing of what is known lies in the window
        return cls(trace, window, config, graph, replayed_ns, cost, without_ns)

    @property
    def unprofiled_ns(self) -> int | None:
        """How long the window takes without the profiler; None where only a part of its cost is known."""
        return self.without_ns if self.profiler is not None and self.profiler.calibrated else None

    @property
    def own_ns(self) -> int:
        """The time of the program itself: without the profiler, where the trace knows that."""
        return self.replayed_ns if self.unprofiled_ns is None else self.unprofiled_ns

    @property
    def error(self) -> float:
        """How far the unchanged replay is from the trace, as a share of it."""
        measured = self.window.wall_ns
        return abs(self.replayed_ns - measured) / measured if measured else 0.0

    def predict(self, changes: tuple[Change, ...], *, bounds: bool = True) -> Prediction:
        """Replay the graph with some changes; without ``bounds`` low and high are as predicted."""
        edited = changed(self.graph, changes, self.config)
        graphs = [edited.graph] * 3
        if bounds:
            graphs[1] = with_less_order(self.graph, edited.graph)
            graphs[2] = with_more_order(self.graph, edited.graph, self.config)
        played = replay(edited.graph)
        predicted, low, high = self._lengths(graphs, {id(edited.graph): length_ns(played, self.window)})
        without = self._without(graphs)
        return Prediction(
            trace=self.trace,
            window=self.window,
            changes=changes,
            measured_ns=self.window.wall_ns,
            replayed_ns=self.replayed_ns,
            predicted_ns=predicted,
            low_ns=min(low, predicted),
            high_ns=max(high, predicted),
            unprofiled=None if self.unprofiled_ns is None else without,
            partly_unprofiled=without if self.unprofiled_ns is None else None,
            basis=edited.basis + self._about_profiler,
            played=played,
        )

    def _lengths(self, graphs: list[Graph], known: dict[int, int]) -> list[int]:
        """How long the window takes in each of some graphs, of which several may be the same one."""
        for graph in graphs:
            if id(graph) not in known:
                known[id(graph)] = length_ns(replay(graph), self.window)
        return [known[id(graph)] for graph in graphs]

    def _without(self, graphs: list[Graph]) -> Without | None:
        if self.profiler is None or self.without_ns is None:
            return None
        event_ns = self.profiler.event_ns
        without = {id(graph): without_profiler(graph, event_ns) for graph in graphs}
        predicted, low, high = self._lengths([without[id(graph)] for graph in graphs], {})
        return Without(event_ns, self.without_ns, predicted, min(low, predicted), max(high, predicted))

    @property
    def _about_profiler(self) -> tuple[str, ...]:
        cost = self.profiler
        if cost is None:
            return ("the profiler's own cost is not known, and stays in",)
        less = f"{cost.event_ns / 1e3:.1f} us less for each event that it recorded"
        if cost.calibrated:
            return (f"without the profiler: {less}",)
        seen = f"what it recorded of itself, and {less}" if cost.event_ns else "what it recorded of itself"
        return (f"of the profiler's cost only a part is known: {seen}",)


def length_ns(played: Replay, window: Window) -> int:
    """How long a window takes in a replay."""
    trace = moved(played)
    if window.name is not None:
        return of_range(trace, window.name).wall_ns
    return between(trace.start_ns, trace.end_ns).wall_ns
