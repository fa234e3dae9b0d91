"""A document as a tree of plain data: whoever has something to say builds it once, and each renderer shows it its way.

Texts may come from a trace: they stand here as they are, and every renderer makes them safe for its medium. Renderers
choose how much of a node they show, never what it says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from overlapscope.formatting import share, time


class Tone(StrEnum):
    """What a paragraph is for; each renderer gives it its look."""

    PLAIN = "plain"
    HEADLINE = "headline"
    VERDICT = "verdict"
    ABOUT = "about"
    NOTE = "note"
    GOOD = "good"
    INFO = "info"
    WARNING = "warning"
    DAMAGE = "damage"
    LINE = "line"
    """One line, cut where it is too long for a terminal."""
    DETAIL = "detail"
    """Belongs to the paragraph before it: a terminal indents it."""
    PROBLEM = "problem"


class Medium(StrEnum):
    """Where something is shown: on a terminal, or on a page (HTML and Markdown) that has room for all."""

    TERMINAL = "terminal"
    PAGE = "page"
    BOTH = "both"


@dataclass(frozen=True)
class Heading:
    """A heading; ``level`` is 2 for those below the title of the document."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """A paragraph. With a ``label`` before its text, such as a severity, only the label has the colour of the tone."""

    text: str
    tone: Tone = Tone.PLAIN
    label: str = ""


@dataclass(frozen=True)
class Facts:
    """Short facts on one line."""

    facts: tuple[str, ...]
    tone: Tone = Tone.ABOUT


@dataclass(frozen=True)
class Bullets:
    """Paragraphs as a list; a terminal shows ``most`` of them and says how many are left: ``rest`` says where."""

    items: tuple[Paragraph, ...]
    most: int | None = None
    rest: str = ""


@dataclass(frozen=True)
class Terms:
    """Terms and what is said of each; ``least`` is the least width of the terms on a terminal."""

    entries: tuple[tuple[str, str], ...]
    least: int = 0


@dataclass(frozen=True)
class Column:
    """A column of a table: numbers to the right, ``text`` to the left.

    ``ends_matter`` is set for paths, whose end says more than their begin where they are cut. ``least`` is the least
    width on a terminal.
    """

    heading: str
    text: bool = False
    ends_matter: bool = False
    least: int = 0


@dataclass(frozen=True)
class Places:
    """Stretches of the timeline in ns on the trace's clock: the longest ones, longest first, and the number of all."""

    longest: tuple[tuple[int, int], ...]
    count: int


@dataclass(frozen=True)
class Table:
    """A table of texts; ``places`` says for each row where it is on the timeline; empty where that is unknown."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    places: tuple[Places, ...] = ()


@dataclass(frozen=True)
class BarPart:
    """A part of a bar; ``kind`` names its colour: what a timeline calls bars of that colour."""

    label: str
    time_ns: int
    kind: str


@dataclass(frozen=True)
class Bar:
    """A time as a bar of parts that add up to it."""

    title: str
    parts: tuple[BarPart, ...]

    @property
    def total_ns(self) -> int:
        """The length of the bar."""
        return sum(part.time_ns for part in self.parts)

    @property
    def table(self) -> Table:
        """The parts as a table, for where a bar cannot be drawn."""
        whole = self.total_ns
        columns = {
            "": [part.label for part in self.parts],
            "time": [time(part.time_ns) for part in self.parts],
            "share": [share(part.time_ns, whole) for part in self.parts],
        }
        return table(f"{self.title}, {time(whole)} in all", columns, {""})


@dataclass(frozen=True)
class Bars:
    """Bars of the same kind, such as one for each GPU; ``table`` stands for them where many do not fit."""

    bars: tuple[Bar, ...]
    table: Table


@dataclass(frozen=True)
class Code:
    """Lines of code; a terminal keeps lines whole that it may not break, so that they can be pasted."""

    text: str
    breaks: bool = True


@dataclass(frozen=True)
class Explanation:
    """A page in Markdown, written by us, that a reader unfolds."""

    title: str
    markdown: str


@dataclass(frozen=True)
class Finding:
    """One finding: what was found, where, what its fix is worth, and the figures behind it."""

    rank: int
    code: str
    title: str
    severity: str
    facts: tuple[str, ...]
    message: str
    place: str = ""
    worth: tuple[str, ...] = ()
    fix: str = ""
    evidence: Terms = Terms(())
    explanation: Explanation | None = None
    places: Places | None = None


@dataclass(frozen=True)
class Figure:
    """A picture or an interactive timeline, which whoever renders the page gives by this key."""

    key: str
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """Parts that belong together. Pages head them with the title; a terminal ends them with an empty line.

    ``key`` is the anchor of the section on a page. A ``folded`` section of a page shows its title until it is opened.
    """

    title: str
    parts: tuple[Node, ...]
    key: str = ""
    medium: Medium = Medium.BOTH
    folded: bool = False


@dataclass(frozen=True)
class Document:
    """A whole document: ``title`` heads a page; ``source``, a path, heads it on a terminal, which shows no title."""

    title: str
    parts: tuple[Section, ...]
    source: str = ""

    def having(self, keys: Sequence[str]) -> Document:
        """The document with the sections of these keys, in this order; keys without a section are left out."""
        parts = tuple(part for key in keys for part in self.parts if part.key == key)
        return Document(self.title, parts, self.source)


Node = (
    Heading | Paragraph | Facts | Bullets | Terms | Table | Bar | Bars | Code | Explanation | Finding | Figure | Section
)

Shown = Document | Sequence[Node]
"""What renderers take: a document with its title, or parts of one."""

TEXTS = frozenset({"API", "api", "call", "cause", "change", "changes", "code", "confidence", "direction", "fixes"})
TEXTS |= {"first finding", "memory", "most of it", "name", "op", "range", "severity", "source", "trace", "where"}
"""Headings of columns of text, in most tables; the others are numbers."""
PATHS = frozenset({"range", "source", "where"})
"""Headings of columns whose texts are paths."""


def table(
    title: str,
    columns: Mapping[str, Sequence[str]],
    texts: Collection[str] = TEXTS,
    places: Sequence[Places] = (),
) -> Table:
    """A table of columns by their headings; those in ``texts`` are columns of text.

    >>> table("Copies", {"name": ["a", "b"], "count": ["1", "2"]}).rows
    (('a', '1'), ('b', '2'))
    """
    return row_table(title, columns, zip(*columns.values(), strict=True), texts, places)


def row_table(
    title: str,
    headings: Iterable[str],
    rows: Iterable[tuple[str, ...]],
    texts: Collection[str] = TEXTS,
    places: Sequence[Places] = (),
) -> Table:
    """A table of rows below headings; those in ``texts`` are columns of text.

    >>> row_table("Copies", ["name", "count"], [("a", "1"), ("b", "2")]).rows
    (('a', '1'), ('b', '2'))
    """
    heads = tuple(Column(name, text=name in texts, ends_matter=name in PATHS) for name in headings)
    return Table(title, heads, tuple(rows), tuple(places))


def parts_on(parts: Sequence[Node], medium: Medium, without: tuple[type, ...] = ()) -> list[Node]:
    """The parts that a medium shows: neither sections for the other one, nor nodes of the types ``without``."""
    return [part for part in parts if not isinstance(part, without) and _medium(part) in (medium, Medium.BOTH)]


def _medium(part: Node) -> Medium:
    return part.medium if isinstance(part, Section) else Medium.BOTH


def indented(cell: str) -> str:
    """A cell of a table whose leading spaces stay where spaces at the begin of a text are dropped, as on pages."""
    inner = cell.lstrip(" ")
    return 2 * (len(cell) - len(inner)) * "\N{NO-BREAK SPACE}" + inner
