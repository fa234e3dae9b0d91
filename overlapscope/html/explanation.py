"""The page of a rule as HTML."""

from __future__ import annotations

from markdown_it import MarkdownIt

from overlapscope.diagnosis.catalogue import rule
from overlapscope.markup import Html, tag

_HEADING = "h4"  # below the finding's own


def explanation(code: str) -> Html:
    """What `overlapscope explain` prints about a rule, folded away."""
    entry = rule(code)
    reader = MarkdownIt("commonmark", {"html": False})
    tokens = reader.parse(entry.page.partition("\n")[2])
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = _HEADING
    body = Html(reader.renderer.render(tokens, reader.options, {}))
    return tag("details", tag("summary", f"Explain {entry.code}: {entry.title}"), body, class_="explain")
