"""A whole page in one file, which loads nothing and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from overlapscope.markup import Html, tag


def document(title: str, body: Sequence[Html], styles: Sequence[str], scripts: Sequence[str] = ()) -> str:
    """The page; scripts and styles are allowed by their hashes."""
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(scripts, styles)),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        *(tag("style", Html(style)) for style in styles),
    )
    whole = tag("body", *body, *(tag("script", Html(script)) for script in scripts))
    return f"<!doctype html>\n{tag('html', tag('head', *head), whole, lang='en')}\n"


def asset(name: str) -> str:
    """A file of the page's own."""
    return files("overlapscope.html").joinpath("assets", name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """Nothing but what is in the page."""
    allowed = {"script-src": scripts, "style-src": styles}
    parts = [f"{kind} {' '.join(map(_hash, texts))}" for kind, texts in allowed.items() if texts]
    return "; ".join(["default-src 'none'", *parts, "base-uri 'none'", "form-action 'none'"])


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
