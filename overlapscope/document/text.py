"""Render a document as text for a terminal of any width."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from overlapscope.document import nodes
from overlapscope.document.nodes import Medium, Node, Shown, Tone, parts_on
from overlapscope.document.table_layout import fitted
from overlapscope.formatting import numbers, safe, share, time, time_unit

_STYLES = {
    Tone.HEADLINE: "bold",
    Tone.ABOUT: "dim",
    Tone.NOTE: "dim",
    Tone.GOOD: "green",
    Tone.INFO: "dim",
    Tone.WARNING: "yellow",
    Tone.DAMAGE: "bold red",
}
_SEVERITIES = {"hazard": "bold red", "high": "bold red", "medium": "bold yellow", "low": "bold", "info": "bold dim"}
_KINDS = {"kernel": "green", "copy exposed": "yellow", "collective": "magenta"}
_PADDED = (Tone.VERDICT, Tone.GOOD)  # an empty line follows
_INDENTS = {Tone.DETAIL: "  ", Tone.PROBLEM: "! "}
_OF_FINDING = 3  # characters by which what is said of a finding is indented
_LEFT_OUT = (nodes.Figure, nodes.Explanation)  # for pages
_MOST_BARS = 2  # more are rows of one table
_LEAST_BAR, _LEAST_LABEL = 12, 20  # characters
_BLOCKS = " ▏▎▍▌▋▊▉█"
_UNBROKEN = 10_000
"""Characters of a line where lines are not broken."""


def show(shown: Shown, console: Console, *, ends_empty: bool = True) -> None:
    """Print a document, with the path of its source, or parts; the last section ends with an empty line or without."""
    source = [Text(safe(shown.source), style="cyan")] if isinstance(shown, nodes.Document) and shown.source else []
    parts = shown.parts if isinstance(shown, nodes.Document) else shown
    lines = _Terminal(console.width).parts(parts)
    if lines and not ends_empty and _ends_empty(lines[-1]):
        lines.pop()
    console.print(Group(*source, *lines), crop=False)


def show_lines(parts: Sequence[Node], console: Console) -> None:
    """Print parts of a document; lines are broken on a terminal only, and go on below the begin of their text."""
    terminal = _Terminal(console.width if console.is_terminal else _UNBROKEN, hang=0)
    console.print(Group(*terminal.parts(parts)), soft_wrap=True)


def plain_text(parts: Sequence[Node], width: int | None = None, hang: int | None = None) -> str:
    """Parts of a document as text without colours, ending with one line break.

    Lines are broken at ``width``, None for nowhere; those of a paragraph after its first are indented by ``hang`` more.
    """
    terminal = _Terminal(width or _UNBROKEN, hang)
    console = Console(file=io.StringIO(), width=terminal.width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(Group(*terminal.parts(parts)), crop=False)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).rstrip("\n") + "\n"


class _Terminal:
    """Nodes as what rich prints: a method for each kind of node."""

    def __init__(self, width: int, hang: int | None = None) -> None:
        self.width = width
        self._hang = hang

    def parts(self, parts: Sequence[Node]) -> list[RenderableType]:
        """All that a terminal shows of some nodes."""
        return [line for node in parts_on(parts, Medium.TERMINAL, _LEFT_OUT) for line in self._node(node)]

    def _node(self, node: Node) -> Iterator[RenderableType]:
        lines: Iterator[RenderableType] = getattr(self, f"_{type(node).__name__.lower()}")(node)
        return lines

    def _section(self, node: nodes.Section) -> Iterator[RenderableType]:
        lines = self.parts(node.parts)
        yield from lines
        if lines and not _ends_empty(lines[-1]):
            yield Text("")

    def _heading(self, node: nodes.Heading) -> Iterator[RenderableType]:
        yield Text(safe(node.text), style="bold")

    def _paragraph(self, node: nodes.Paragraph) -> Iterator[RenderableType]:
        text, style, indent = safe(node.text), _STYLES.get(node.tone, ""), _INDENTS.get(node.tone, "")
        if node.label:
            yield Text.assemble((f"{safe(node.label)}: ", style), text)
        elif node.tone is Tone.LINE:
            yield Text(text, no_wrap=True, overflow="ellipsis")
        elif node.tone in _PADDED:
            yield Padding(Text(text, style=style), (0, 0, 1, 0))
        elif indent or self._hang is not None:
            yield Text(self._hanging(text, indent, len(indent) + (self._hang or 0)), style=style)
        else:
            yield Text(text, style=style)

    def _hanging(self, text: str, indent: str, hang: int) -> str:
        rest = " " * hang
        return textwrap.fill(text, self.width, initial_indent=indent, subsequent_indent=rest, break_on_hyphens=False)

    def _facts(self, node: nodes.Facts) -> Iterator[RenderableType]:
        yield Text(safe("  ".join(node.facts)), style=_STYLES.get(node.tone, ""))

    def _bullets(self, node: nodes.Bullets) -> Iterator[RenderableType]:
        yield from self.parts(node.items[: node.most])
        left = 0 if node.most is None else len(node.items) - node.most
        if left > 0:
            yield Text(f"... and {left} more{node.rest}", style="dim")

    def _terms(self, node: nodes.Terms) -> Iterator[RenderableType]:
        wide = max([node.least, *(len(term) for term, _ in node.entries)])
        for term, text in node.entries:
            yield Text(self._hanging(safe(f"{term:{wide}}  {text}"), "  ", wide + 4))

    def _table(self, node: nodes.Table) -> Iterator[RenderableType]:
        yield from fitted(node, self.width)

    def _bars(self, node: nodes.Bars) -> Iterator[RenderableType]:
        for part in node.bars if len(node.bars) <= _MOST_BARS else [node.table]:
            yield from self._section(nodes.Section("", (part,)))

    def _bar(self, node: nodes.Bar) -> Iterator[RenderableType]:
        whole = node.total_ns
        unit, name = time_unit([whole])
        figures = numbers([part.time_ns for part in node.parts], unit)
        wide = max(map(len, figures))
        room = self.width - wide - 14
        labels = min(max(len(part.label) for part in node.parts), max(room - _LEAST_BAR, _LEAST_LABEL))
        yield Text(safe(f"{node.title} ({name}), {time(whole)} in all"), style="bold")
        for part, figure in zip(node.parts, figures, strict=True):
            label = safe(part.label, labels)
            line = Text(f"  {label:<{labels}}  {figure:>{wide}}  {share(part.time_ns, whole):>5}  ")
            blocks = _blocks(max(room - labels, 1) * part.time_ns / whole)
            yield line.append(blocks, style=_KINDS.get(part.kind, "dim"))

    def _code(self, node: nodes.Code) -> Iterator[RenderableType]:
        for line in node.text.splitlines():
            yield Text(safe(line), style="cyan", overflow=None if node.breaks else "ignore")

    def _finding(self, node: nodes.Finding) -> Iterator[RenderableType]:
        """What was found, where it costs most, what its fix is worth, and the fix; the figures are for pages."""
        head = Text(safe(f"{node.rank}. {node.title}"), style=_SEVERITIES.get(node.severity, "bold"))
        yield head.append(safe("  " + ", ".join(node.facts)), style="not bold dim")
        place = [nodes.Paragraph(f"at {node.place}", Tone.NOTE)] if node.place else []
        said: list[Node] = [
            nodes.Paragraph(node.message),
            *place,
            *map(nodes.Paragraph, node.worth),
            nodes.Code(node.fix),
        ]
        yield from (Padding(line, (0, 0, 0, _OF_FINDING)) for line in self.parts(said))


def _ends_empty(line: RenderableType) -> bool:
    return (isinstance(line, Text) and not line.plain) or (isinstance(line, Padding) and line.bottom > 0)


def _blocks(length: float) -> str:
    """A bar of so many characters, to an eighth of one."""
    eighths = round(8 * length)
    return _BLOCKS[8] * (eighths // 8) + _BLOCKS[eighths % 8].strip()
