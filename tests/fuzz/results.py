"""What has to hold of the files and texts that commands write, by their format."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow.parquet

from tests.fuzz import judge
from tests.json_page import keys_of, listed

_LAYOUT = {"\n", "\t"}
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
_OF_AUDIT = ("overlapscope.doctor/1", "overlapscope.audit/3")
_IN_WORDS = "critical_path"
"""What the page describes without a table."""
_ACTIVE = {"img", "iframe", "object", "embed", "link", "base", "form"}


def of_text(text: str) -> list[str]:
    """What of a text a terminal, or a reader of it, could take for something else."""
    found = {sign for sign in text if sign not in _LAYOUT and unicodedata.category(sign) in _UNSAFE}
    return [f"the text has {sign!r}" for sign in sorted(found)]


def of_json(text: str) -> list[str]:
    """What is wrong with a result as JSON: its syntax, its figures, keys that are not documented."""
    result = json.loads(text, parse_constant=_no_json)
    return [*judge.complaints(result), *_unknown_keys(result)]


def of_folder(folder: Path) -> list[str]:
    """What is wrong with the files in a folder."""
    return [f"{path.name}: {wrong}" for path in sorted(folder.rglob("*")) if path.is_file() for wrong in _of_file(path)]


def _of_file(path: Path) -> list[str]:
    checks: dict[str, Callable[[Path], list[str]]] = {
        ".svg": lambda file: _of_xml(file.read_text()),
        ".xml": lambda file: _of_xml(file.read_text()),
        ".html": lambda file: list(_Page().problems(file.read_text())),
        ".md": lambda file: of_text(file.read_text()),
        ".csv": lambda file: _of_csv(file.read_text()),
        ".parquet": lambda file: [] if pyarrow.parquet.read_table(file) is not None else ["none"],
    }
    if path.parent.name == "seen" or path.suffix not in checks:
        return []
    return checks[path.suffix](path)


def _of_xml(text: str) -> list[str]:
    root = ElementTree.fromstring(text)  # noqa: S314 - our own
    return ["it has a script" for element in root.iter() if element.tag.rpartition("}")[2] == "script"]


def _of_csv(text: str) -> list[str]:
    widths = {len(row) for row in csv.reader(io.StringIO(text))}
    return [f"its rows have {sorted(widths)} cells"] if len(widths) > 1 else []


class _Page(HTMLParser):
    """Finds what a page may not have: elements that load or do something, and more scripts than its own."""

    def problems(self, text: str) -> Iterator[str]:
        """What is wrong with the page."""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        for tag, attributes in self.tags:
            if tag in _ACTIVE or any(name.startswith("on") for name in attributes):
                yield f"it has an element {tag} {attributes}"
            if (attributes.get("href") or "").lower().startswith(("javascript:", "data:")):
                yield f"it has a link to {attributes['href']}"
        yield from of_text(text.replace("\r", "\n"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.append((tag, dict(attrs)))


def _unknown_keys(result: Any) -> list[str]:
    schema = result.get("schema")
    unknown = sorted({*keys_of(result)} - _documented(schema))
    return [f"{key} is not documented" for key in unknown if not key.startswith(_IN_WORDS)]


@cache
def _documented(schema: str) -> set[str]:
    of_audit, audit = _OF_AUDIT
    return set(listed(audit if schema == of_audit else schema))


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
