"""What docs/json.md lists: every key of every JSON file, by its schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "json.md"
CODED = re.compile(r"`([^`]+)`")
BY_DATA = re.compile(
    r"(^|\.)(directions|directions\.\*\.memory|versions|evidence|made_of|idle_share|ranges|answers\[\]\.counts)\.[^.\[]+$"
)
"""Keys below these are data: any name."""
DOTTED = re.compile(r"(^|\.)(figures|spread)\..+$")
"""So are those below these, and have dots in them."""


def section(name: str) -> str:
    """The text of a section of the page."""
    return PAGE.read_text().partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def renamed(name: str) -> dict[str, str | None]:
    """Every key of a section with its path, and the name that it had in version 1 where it had another one."""
    prefixes, found = [""], dict[str, str | None]()
    for line in section(name).splitlines():
        if line.startswith("### "):
            prefixes = [f"{prefix}." for prefix in CODED.findall(line)]
        elif line.startswith("| `"):
            cells = line.strip("|").split("|")
            (key,), old = CODED.findall(cells[0]), CODED.findall(cells[-1])
            for prefix in prefixes:
                assert prefix + key not in found, "no key twice"
                found[prefix + key] = old[0] if old else None
    return found


def listed(name: str) -> dict[str, str]:
    """Every key of a section with its path, and the name that it had in version 1."""
    return {key: old or key.rpartition(".")[2] for key, old in renamed(name).items()}


def keys_of(value: Any, path: str = "") -> Iterator[str]:
    """Every key in a JSON value, with its path."""
    if isinstance(value, dict):
        for key, entry in value.items():
            inner = DOTTED.sub(r"\1\2.*", BY_DATA.sub(r"\1\2.*", f"{path}.{key}".lstrip(".")))
            yield inner
            yield from keys_of(entry, inner)
    elif isinstance(value, list):
        for entry in value:
            yield from keys_of(entry, f"{path}[]")
