"""Render a document as HTML. The page around it has the styles and the scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from overlapscope.document import nodes
from overlapscope.document.nodes import Medium, Node, Shown, Tone, indented, parts_on
from overlapscope.formatting import share, time
from overlapscope.markup import Html, tag, text, together

_WIDTH, _HEIGHT = 1000, 22  # of a bar, in its own units
_IN_EXPLANATION = "h4"  # headings: below that of a finding


@dataclass(frozen=True)
class Surroundings:
    """What the page around a document offers.

    ``figures`` are the pictures by their keys, and ``zero_ns`` is where its interactive timeline begins, None without
    one. Where it is not ``styled``, as in a notebook, bars are tables, and terms a line.
    """

    figures: Mapping[str, Html] = field(default_factory=dict)
    zero_ns: int | None = None
    styled: bool = True


def html_of(shown: Shown, around: Surroundings = Surroundings()) -> Html:
    """A document with its title, or parts of one."""
    if isinstance(shown, nodes.Document):
        return together(tag("h1", shown.title), html_of(shown.parts, around))
    return _Page(around).parts(shown)


def colour_class(kind: str) -> str:
    """The class of what is filled with the colour of a kind of bar; ``--`` before it is the variable.

    >>> colour_class("DtoD, PtoP")
    'bar-dtod-ptop'
    """
    return "bar-" + "-".join("".join(sign if sign.isalnum() else " " for sign in kind.lower()).split())


def swatch(kind: str) -> Html:
    """A box of the colour of a kind of bar, for legends."""
    box = tag("rect", width="11", height="8", class_=colour_class(kind))
    return tag("svg", box, viewBox="0 0 11 8", aria_hidden="true")


class _Page:
    """Nodes as HTML: a method for each kind of node."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    def parts(self, parts: Sequence[Node]) -> Html:
        """All that a page shows of some nodes."""
        return together(
            *(getattr(self, f"_{type(node).__name__.lower()}")(node) for node in parts_on(parts, Medium.PAGE))
        )

    def _section(self, node: nodes.Section) -> Html:
        parts, anchor = self.parts(node.parts), node.key or None
        if not parts or not node.title:
            return parts
        if node.folded:
            return tag("details", tag("summary", node.title), parts, id=anchor)
        return together(tag("h2", node.title, id=anchor), parts)

    def _heading(self, node: nodes.Heading) -> Html:
        return tag(f"h{node.level}", node.text)

    def _paragraph(self, node: nodes.Paragraph) -> Html:
        strong = node.tone is Tone.HEADLINE and not self._around.styled
        return tag("p", tag("strong", node.text) if strong else _labelled(node), class_=_class(node.tone))

    def _facts(self, node: nodes.Facts) -> Html:
        return tag("p", " · ".join(node.facts), class_=_class(node.tone))

    def _bullets(self, node: nodes.Bullets) -> Html:
        if not node.items:
            return Html("")
        warns = any(item.tone in (Tone.WARNING, Tone.DAMAGE) for item in node.items)
        return tag("ul", *(tag("li", _labelled(item)) for item in node.items), class_="warnings" if warns else None)

    def _terms(self, node: nodes.Terms) -> Html:
        if not node.entries:
            return Html("")
        if not self._around.styled:
            return tag("p", "; ".join(f"{term} {said}" for term, said in node.entries))
        pairs = ((tag("dt", term), tag("dd", said)) for term, said in node.entries)
        return tag("dl", *(part for pair in pairs for part in pair))

    def _table(self, node: nodes.Table) -> Html:
        """A table without its empty columns; a button before each row shows the row on the timeline."""
        if not node.rows:
            return Html("")
        zero_ns = self._around.zero_ns
        used = [(at, column) for at, column in enumerate(node.columns) if any(row[at] for row in node.rows)]
        head = [tag("th", column.heading, class_=_alignment(column), scope="col") for _, column in used]
        body = [[tag("td", indented(row[at]), class_=_alignment(column)) for at, column in used] for row in node.rows]
        if node.places and zero_ns is not None:
            head.insert(0, tag("td", class_="lead"))
            for cells, places in zip(body, node.places, strict=True):
                cells.insert(0, tag("td", _jump("▸", places, zero_ns, counts=False), class_="lead"))
        caption = tag("caption", node.title) if node.title else ""
        rows = tag("tbody", *(tag("tr", *cells) for cells in body))
        return tag("div", tag("table", caption, tag("thead", tag("tr", *head)), rows), class_="scroll")

    def _bars(self, node: nodes.Bars) -> Html:
        return self.parts(node.bars if self._around.styled or len(node.bars) == 1 else [node.table])

    def _bar(self, node: nodes.Bar) -> Html:
        """A stacked bar with a legend of its parts."""
        if not self._around.styled:
            return self._table(node.table)
        whole, label = node.total_ns, f"{node.title}, {time(node.total_ns)} in all"
        names = [
            tag(
                "li",
                swatch(part.kind),
                f"{part.label} ",
                tag("b", time(part.time_ns)),
                f" {share(part.time_ns, whole)}",
            )
            for part in node.parts
        ]
        box = f"0 0 {_WIDTH} {_HEIGHT}"
        bar = tag("svg", *_rects(node), viewBox=box, preserveAspectRatio="none", role="img", aria_label=label)
        return tag("figure", tag("figcaption", label), bar, tag("ul", *names, class_="legend"), class_="time")

    def _code(self, node: nodes.Code) -> Html:
        return tag("pre", tag("code", node.text))

    def _finding(self, node: nodes.Finding) -> Html:
        """A finding with its figures, its fix, its places on the timeline, and the page of its rule to unfold."""
        fix = [nodes.Code(node.fix)] if node.fix else []
        return tag(
            "section",
            tag("h3", f"{node.rank}. {node.title}"),
            tag("p", "; ".join(node.facts), class_="about"),
            tag("p", node.message),
            self._show(node.places),
            self._terms(node.evidence),
            *(tag("p", line) for line in node.worth),
            self.parts([*fix, *([node.explanation] if node.explanation else [])]),
            class_=f"finding {node.severity}",
            data_code=node.code,
            id=f"finding-{node.rank}",
        )

    def _show(self, places: nodes.Places | None) -> Html:
        if places is None or self._around.zero_ns is None:
            return Html("")
        cut = f", the {len(places.longest)} longest first" if places.count > len(places.longest) else ""
        several = f" ({places.count:,} places{cut})" if places.count > 1 else ""
        return _jump(f"Show on the timeline{several}", places, self._around.zero_ns, counts=True)

    def _explanation(self, node: nodes.Explanation) -> Html:
        from markdown_it import MarkdownIt

        reader = MarkdownIt("commonmark", {"html": False})
        tokens = reader.parse(node.markdown)
        for token in tokens:
            if token.type in ("heading_open", "heading_close"):
                token.tag = _IN_EXPLANATION
        body = Html(reader.renderer.render(tokens, reader.options, {}))
        return tag("details", tag("summary", node.title), body, class_="explain")

    def _figure(self, node: nodes.Figure) -> Html:
        caption = tag("p", node.caption, class_="about") if node.caption else ""
        return together(self._around.figures.get(node.key, ""), caption)


def _labelled(node: nodes.Paragraph) -> Html:
    return text(f"{node.label}: {node.text}" if node.label else node.text)


def _class(tone: Tone) -> str | None:
    return None if tone is Tone.PLAIN else tone.value


def _alignment(column: nodes.Column) -> str | None:
    return None if column.text else "number"


def _jump(label: str, places: nodes.Places, zero_ns: int, *, counts: bool) -> Html:
    """A button that shows places on the timeline; with ``counts`` it says which one is shown."""
    shown = json.dumps([[first - zero_ns, last - zero_ns] for first, last in places.longest])
    counted, title = ("yes", None) if counts else (None, "Show on the timeline, the longest first")
    attributes = {"data_places": shown, "data_counts": counted, "title": title, "aria_label": title}
    return tag("button", label, type="button", disabled=None if places.count else "", **attributes)


def _rects(bar: nodes.Bar) -> Iterator[Html]:
    begin = 0.0
    for part in bar.parts:
        width = _WIDTH * part.time_ns / bar.total_ns
        yield tag("rect", x=f"{begin:.2f}", width=f"{width:.2f}", height=_HEIGHT, class_=colour_class(part.kind))
        begin += width
