"""Every change, listed, and how several are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from itertools import groupby

import numpy as np

from overlapscope.dependencies.build import without_cycles
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.errors import ChangeNotUnderstood
from overlapscope.formatting import counted
from overlapscope.model.columns import NO_ID
from overlapscope.ordering.accesses import Races, early_reads, early_refills, early_reuses, early_uploads
from overlapscope.ordering.order import Order
from overlapscope.whatif.change import Change, Editor, Where, parsed
from overlapscope.whatif.changes import NAMES
from overlapscope.whatif.host_memory import before_host

_RULES: dict[str, Callable[[Order], Races]] = {
    "OVL101": early_uploads,
    "OVL102": early_refills,
    "OVL103": early_reads,
    "OVL104": early_reuses,
}


@dataclass(frozen=True, eq=False)
class InOrder:
    """The races of a graph put in order: each access after the one before it, the rules, and in words what is assumed.

    What races with the host gets no dependency: a trace does not say where the program would have to wait.
    """

    edges: Dependencies
    codes: tuple[str, ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, graph: Graph) -> InOrder:
        """The races that the recording of a graph's trace knows."""
        order = Order(graph)
        races = {code: pairs for code, of in _RULES.items() if len(pairs := of(order))}
        edges = (graph.after_work(pairs.first, pairs.then, DependencyKind.EVENT) for pairs in races.values())
        texts = tuple(_said(*each) for each in races.items())
        return cls(Dependencies.concat(Dependencies.none(), *edges), tuple(races), texts)


def _said(code: str, races: Races) -> str:
    text = f"{code} is fixed first, so that the accesses of {counted(len(races), 'pair')} are in order"
    with_host = (races.then == NO_ID).any()
    return f"{text}; the host's wait for that is not simulated" if with_host else text


def _change(name: str) -> type[Change]:
    module = import_module(f"overlapscope.whatif.changes.{name.replace('-', '_')}")
    change: type[Change] = getattr(module, name.title().replace("-", ""))
    return change


CHANGES = tuple(_change(name) for name in NAMES)
"""All changes, in the order of `NAMES`."""


def change_of(name: str) -> type[Change] | None:
    """The change of a name, also of an old one; None where there is none."""
    return {known: kind for kind in CHANGES for known in (kind.name, kind.old_name) if known}.get(name)


def parse(text: str) -> Change:
    """Read ``NAME[=NUMBER][:within=NAME][,stream=N][,source=TEXT]``.

    >>> parse("pin:within=copy,stream=13").stream
    13
    >>> parse("prefetch=2")
    Prefetch(within=None, stream=None, source=None, copies=None, calls=None, steps=2.0)
    >>> str(parse("graph"))
    'cuda-graph'

    Raises:
        ChangeNotUnderstood: it is not of this form, or there is no such change.
    """
    return parsed(CHANGES, text)


def understood(entries: Iterable[Change | str] | Change | str) -> tuple[Change, ...]:
    """Changes as they are written or made, each once.

    >>> [str(change) for change in understood(["pin", "prefetch", "pin"])]
    ['pin', 'prefetch=1']

    Raises:
        ChangeNotUnderstood: there is no such change, or two of them contradict each other.
    """
    several = (entries,) if isinstance(entries, Change | str) else entries
    changes = tuple(dict.fromkeys(parse(entry) if isinstance(entry, str) else entry for entry in several))
    by_place: dict[tuple[object, ...], Change] = {}
    for each in changes:
        place = (each.name, *(getattr(each, limit) for limit in each.limits), each.copies)
        if by_place.setdefault(place, each) is not each:
            raise ChangeNotUnderstood(f"{by_place[place]} and {each} contradict each other")
    return changes


def changed(graph: Graph, changes: Iterable[Change]) -> Editor:
    """The graph with some changes, in an order that does not depend on theirs.

    Changes of one name and number are made as one. What the host does with the memory of copies stays in order, where
    it is recorded.
    """
    return Edits(graph).changed(changes)


@dataclass(frozen=True, eq=False)
class Edits:
    """A graph to which several sets of changes are made, one set after the other.

    A set that begins as the one before it goes on from there: ``made`` are the steps of the last one.
    """

    graph: Graph
    made: list[tuple[list[Change], Editor]] = field(default_factory=list)

    def changed(self, changes: Iterable[Change], *, in_order: bool = False) -> Editor:
        """The graph with one set of changes; ``in_order`` puts its races in order even if nothing changes."""
        groups = _in_order(changes)
        while self.made and [group for group, _ in self.made] != groups[: len(self.made)]:
            self.made.pop()
        editor = self.made[-1][1].copy() if self.made else Editor(self.graph)
        for group in groups[len(self.made) :]:
            _make(editor, group)
            self.made.append((group, editor.copy()))
        if groups or in_order:
            editor.add(self._races.edges)
            editor.in_order = self._races.codes
            editor.grant(*self._races.texts)
        editor.add(before_host(self.graph, editor.graph))
        editor.graph = without_cycles(editor.graph)
        return editor

    @cached_property
    def _races(self) -> InOrder:
        return InOrder.of(self.graph)


def _in_order(changes: Iterable[Change]) -> list[list[Change]]:
    """Changes in the order in which they are made, those that are made as one together."""
    ordered = sorted(changes, key=lambda each: (NAMES.index(each.name), each.value or 0, str(each)))
    alike = groupby(ordered, key=lambda each: (each.name, each.value, str(each) if each.one_by_one else ""))
    return [list(group) for _, group in alike]


def _make(editor: Editor, alike: list[Change]) -> None:
    where = _where(editor, alike)
    if where is not None:
        before, editor.assumptions = editor.assumptions, []
        alike[0].apply(editor, where)
        editor.assumptions = before + [f"{alike[0].name}: {text}" for text in editor.assumptions]


def _where(editor: Editor, changes: list[Change]) -> Where | None:
    """The copies and calls to which any of the changes applies; a change that applies to nothing is noted."""
    places = []
    for each in changes:
        where = each.concerns(editor.trace)
        if where.copies.any() or (each.stream is None and where.calls.any()):
            places.append(where)
        else:
            editor.assume(f"{each}: the trace has no copy or call to which this change applies")
    if not places:
        return None
    copies, calls = (np.logical_or.reduce([getattr(where, name) for where in places]) for name in ("copies", "calls"))
    return replace(places[0], copies=copies, calls=calls)
