"""A page in one file, which loads nothing and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from overlapscope import __version__
from overlapscope.document.html import colour_class
from overlapscope.markup import Html, tag
from overlapscope.timeline.bars import Style


def framed(title: str, body: Sequence[Html], styles: Sequence[str] = (), scripts: Sequence[str] = ()) -> str:
    """The page with our style and colours; scripts and styles are allowed by their hashes."""
    styles = [asset("page.css"), colour_rules(), *styles]
    scripts = ["".join(map(asset, names.split())) for names in scripts]
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(scripts, styles)),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{title}: overlapscope"),
        *(tag("style", Html(style)) for style in styles),
    )
    made_by = tag("footer", f"Made by overlapscope {__version__}.")
    whole = tag("body", *body, made_by, *(tag("script", Html(script)) for script in scripts))
    return f"<!doctype html>\n{tag('html', tag('head', *head), whole, lang='en')}\n"


def colour_rules() -> str:
    """CSS that defines the colours of all bars: those of figures, others where the page is dark."""
    classes = {style: colour_class(style.value) for style in Style}
    light = "".join(f"--{classes[style]}:{style.colour};" for style in Style)
    dark = "".join(f"--{classes[style]}:{style.dark};" for style in Style if style.dark != style.colour)
    fills = "".join(f".{name}{{fill:var(--{name})}}" for name in classes.values())
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root:not([data-print]){{{dark}}}}}{fills}"


def asset(name: str) -> str:
    """The text of a file that pages are made of."""
    return files("overlapscope.html").joinpath("assets", name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """Nothing but what is in the page."""
    allowed = {"script-src": scripts, "style-src": styles}
    parts = [f"{kind} {' '.join(map(_hash, texts))}" for kind, texts in allowed.items() if texts]
    return "; ".join(["default-src 'none'", *parts, "base-uri 'none'", "form-action 'none'"])


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
