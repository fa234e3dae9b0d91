"""Render a document as Markdown, for a comment on a change or the summary of a job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from overlapscope.document import nodes
from overlapscope.document.nodes import Medium, Node, Shown, Tone, indented, parts_on
from overlapscope.formatting import safe
from overlapscope.markup import text

_SIGNS = re.compile(r"([\\`*_{}\[\]<>()#+!|~&:$-])")
"""What Markdown, or HTML in it, could begin with."""
_LEFT_OUT = (nodes.Figure, nodes.Explanation)  # a comment has no room for them
_FENCE = 3  # backticks around code, and more than in it


def markdown_of(shown: Shown) -> str:
    """A document as Markdown below its title, or parts of one."""
    title, parts = (shown.title, shown.parts) if isinstance(shown, nodes.Document) else ("", shown)
    head = [f"# {_escaped(title)}"] if title else []
    return "\n\n".join([*head, *_Markdown().parts(parts)]) + "\n"


class _Markdown:
    """Nodes as blocks of Markdown: a method for each kind of node."""

    def parts(self, parts: Sequence[Node]) -> Iterator[str]:
        """All that a page shows of some nodes."""
        for node in parts_on(parts, Medium.PAGE, _LEFT_OUT):
            yield from getattr(self, f"_{type(node).__name__.lower()}")(node)

    def _section(self, node: nodes.Section) -> Iterator[str]:
        blocks = list(self.parts(node.parts))
        if blocks and node.folded:
            blocks = [f"<details><summary>{text(node.title)}</summary>", *blocks, "</details>"]
        elif blocks and node.title:
            yield f"## {_escaped(node.title)}"
        yield from blocks

    def _heading(self, node: nodes.Heading) -> Iterator[str]:
        yield f"{'#' * node.level} {_escaped(node.text)}"

    def _paragraph(self, node: nodes.Paragraph) -> Iterator[str]:
        said = f"**{_escaped(node.text)}**" if node.tone is Tone.HEADLINE else _escaped(node.text)
        yield f"**{_escaped(node.label)}:** {said}" if node.label else said

    def _facts(self, node: nodes.Facts) -> Iterator[str]:
        yield " · ".join(map(_escaped, node.facts))

    def _bullets(self, node: nodes.Bullets) -> Iterator[str]:
        yield from ["\n".join(f"- {line}" for line in self.parts(node.items))] if node.items else []

    def _terms(self, node: nodes.Terms) -> Iterator[str]:
        yield "\n".join(f"- **{_escaped(term)}:** {_escaped(said)}" for term, said in node.entries)

    def _table(self, node: nodes.Table) -> Iterator[str]:
        if not node.rows:
            return
        yield from [f"**{_escaped(node.title)}**"] if node.title else []
        head, *body = map(_row, ([column.heading for column in node.columns], *node.rows))
        yield "\n".join([head, "|" + "".join("---|" if column.text else "---:|" for column in node.columns), *body])

    def _bars(self, node: nodes.Bars) -> Iterator[str]:
        yield from self.parts(node.bars if len(node.bars) == 1 else [node.table])

    def _bar(self, node: nodes.Bar) -> Iterator[str]:
        yield from self._table(node.table)

    def _code(self, node: nodes.Code) -> Iterator[str]:
        fence = "`" * max(_FENCE, *(len(run) + 1 for run in re.findall("`+", node.text)), 0)
        yield "\n".join([fence, *map(safe, node.text.splitlines()), fence])

    def _finding(self, node: nodes.Finding) -> Iterator[str]:
        """What was found, where it costs most, what its fix is worth, and the fix; the figures are for HTML."""
        yield f"### {node.rank}. {_escaped(node.title)}"
        place = [f"at {node.place}"] if node.place else []
        yield from map(_escaped, (", ".join(node.facts), node.message, *place, *node.worth))
        yield from self._code(nodes.Code(node.fix)) if node.fix else ()


def _row(cells: Iterable[str]) -> str:
    return "|" + "".join(f" {_escaped(indented(cell))} |" if cell else " |" for cell in cells)


def _escaped(words: str) -> str:
    """Any text as Markdown that shows it and nothing else, and mentions nobody."""
    return _SIGNS.sub(r"\\\1", safe(words)).replace("@", "@<!-- -->")
