"""Every change, listed, and how several are made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby

import numpy as np

from overlapscope.dependencies.build import without_cycles
from overlapscope.dependencies.graph import Graph
from overlapscope.errors import ChangeNotUnderstood
from overlapscope.whatif.change import Change, parsed
from overlapscope.whatif.changes.batch_copies import BatchCopies
from overlapscope.whatif.changes.copy_first import CopyFirst
from overlapscope.whatif.changes.cuda_graph import CudaGraph
from overlapscope.whatif.changes.faster_link import FasterLink
from overlapscope.whatif.changes.no_device_sync import NoDeviceSync
from overlapscope.whatif.changes.no_scalar_sync import NoScalarSync
from overlapscope.whatif.changes.non_blocking import NonBlocking
from overlapscope.whatif.changes.pin import Pin
from overlapscope.whatif.changes.pin_ahead import PinAhead
from overlapscope.whatif.changes.preallocate import Preallocate
from overlapscope.whatif.changes.prefetch import Prefetch
from overlapscope.whatif.changes.side_stream import SideStream
from overlapscope.whatif.config import DEFAULT, SimulationConfig
from overlapscope.whatif.editor import Editor, Where
from overlapscope.whatif.host_buffers import before_host
from overlapscope.whatif.races import InOrder

CHANGES: tuple[type[Change], ...] = (
    Pin,
    PinAhead,
    BatchCopies,
    NoScalarSync,
    NonBlocking,
    NoDeviceSync,
    Preallocate,
    FasterLink,
    SideStream,
    Prefetch,
    CudaGraph,
    CopyFirst,
)
"""In the order in which they are made: what copies are comes before where they go, and that before which goes first."""
NAMES = tuple(kind.name for kind in CHANGES)


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
    found = tuple(dict.fromkeys(parse(entry) if isinstance(entry, str) else entry for entry in several))
    of_same: dict[tuple[object, ...], Change] = {}
    for each in found:
        place = (each.name, each.within, each.stream, each.source, each.copies)
        if of_same.setdefault(place, each) is not each:
            raise ChangeNotUnderstood(f"{of_same[place]} and {each} contradict each other")
    return found


def changed(graph: Graph, changes: Iterable[Change], config: SimulationConfig = DEFAULT) -> Editor:
    """The graph with some changes, in an order that does not depend on theirs.

    Those of one name and number are made as one, of all that they are about. What the host does with the memory of
    copies stays in order, where it is recorded.
    """
    return Edits(graph, config).changed(changes)


@dataclass(frozen=True, eq=False)
class Edits:
    """A graph to which several sets of changes are made, one set after the other.

    A set that begins as the one before it goes on from there: ``made`` are the steps of the last one.
    """

    graph: Graph
    config: SimulationConfig = DEFAULT
    made: list[tuple[list[Change], Editor]] = field(default_factory=list)

    def changed(self, changes: Iterable[Change], *, in_order: bool = False) -> Editor:
        """The graph with one set of changes; ``in_order`` puts its races in order even if nothing changes."""
        groups = _in_order(changes)
        while self.made and [group for group, _ in self.made] != groups[: len(self.made)]:
            self.made.pop()
        editor = self.made[-1][1].copy() if self.made else Editor(self.graph, self.config)
        for group in groups[len(self.made) :]:
            _make(editor, group)
            self.made.append((group, editor.copy()))
        if groups or in_order:
            _put_in_order(editor, self._races)
        editor.add(before_host(self.graph, editor.graph))
        editor.graph = without_cycles(editor.graph)
        return editor

    @cached_property
    def _races(self) -> InOrder:
        return InOrder.of(self.graph, self.config.dependencies.follow_ns)


def _in_order(changes: Iterable[Change]) -> list[list[Change]]:
    """Changes in the order in which they are made, those that are made as one together."""
    order = list(NAMES)
    ordered = sorted(changes, key=lambda each: (order.index(each.name), each.value or 0, str(each)))
    alike = groupby(ordered, key=lambda each: (each.name, each.value, str(each) if each.keeps_apart else ""))
    return [list(group) for _, group in alike]


def _make(editor: Editor, alike: list[Change]) -> None:
    where = _where(editor, alike)
    if where is not None:
        before, editor.assumptions = editor.assumptions, []
        alike[0].apply(editor, where)
        editor.assumptions = before + [f"{alike[0].name}: {text}" for text in editor.assumptions]


def _put_in_order(editor: Editor, races: InOrder) -> None:
    editor.add(races.edges)
    editor.in_order = races.codes
    for text in races.texts:
        editor.grant(text)


def _where(editor: Editor, changes: list[Change]) -> Where | None:
    """What any of some changes is about; those that are about nothing in the trace are noted."""
    places = []
    for each in changes:
        where = each.concerns(editor.trace)
        if where.copies.any() or (each.stream is None and where.calls.any()):
            places.append(where)
        else:
            editor.assume(f"{each}: nothing in the trace is meant by that")
    if not places:
        return None
    copies, calls = (np.logical_or.reduce([getattr(where, name) for where in places]) for name in ("copies", "calls"))
    return replace(places[0], copies=copies, calls=calls)
