"""The traces that an argument names: a file, a folder, or a pattern."""

from __future__ import annotations

from glob import glob, has_magic
from pathlib import Path

from overlapscope.errors import TraceNotFound

_SUFFIXES = (".json", ".json.gz", ".sqlite", ".sqlite.gz")
"""Names that traces in a folder end with."""


def trace_files(text: str) -> list[Path]:
    """The file of this name, the traces in the folder of this name, or the files that match the pattern; sorted.

    Raises:
        TraceNotFound: there are none.
    """
    path = Path(text)
    if path.is_dir():
        found = sorted(each for each in path.iterdir() if each.name.endswith(_SUFFIXES) and each.is_file())
        if not found:
            raise TraceNotFound(f"{text}: no traces in this folder: their names end with {', '.join(_SUFFIXES)}")
        return found
    if has_magic(text) and not path.exists():
        found = sorted(Path(each) for each in glob(text, recursive=True))
        if not found:
            raise TraceNotFound(f"{text}: no file matches this pattern")
        return found
    return [path]
