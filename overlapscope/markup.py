"""HTML from text that may hold anything."""

from __future__ import annotations

from html import escape

from overlapscope.formatting import safe

_VOID = frozenset({"input", "meta"})  # elements without an end


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Html:
    """Any text as HTML: what is no HTML yet is escaped, control characters but line breaks are replaced."""
    if isinstance(value, Html):
        return value
    return Html("\n".join(escape(safe(line)) for line in str(value).split("\n")))


def tag(name: str, *content: object, **attributes: object) -> Html:
    """An element. Underscores in names of attributes are dashes, one at the end is nothing; None leaves one out.

    >>> tag("p", "a < b", class_="x")
    '<p class="x">a &lt; b</p>'
    """
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    given = "".join(f' {key}="{text(value)}"' for key, value in named.items())
    end = "" if name in _VOID else f"</{name}>"
    return Html(f"<{name}{given}>{''.join(map(text, content))}{end}")


def together(*parts: object) -> Html:
    """Parts one after the other."""
    return Html("".join(map(text, parts)))
