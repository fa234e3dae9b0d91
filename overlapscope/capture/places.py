"""Name places in Python code: function, file without folders, and line."""

from __future__ import annotations

import re
import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

_PACKAGES = re.compile(r".*[/\\](?:site-packages|dist-packages)[/\\]")
_OURS = str(Path(__file__).resolve().parent.parent)
_SHOWN = tuple(f"{_OURS}/{name}/" for name in ("workloads",))
"""Parts of this package that are programs, which are recorded like others."""


@cache
def _libraries() -> tuple[str, ...]:
    return tuple(f"{sysconfig.get_path(name)}/" for name in ("purelib", "platlib", "stdlib", "platstdlib"))


@cache
def is_ours(file: str) -> bool:
    """Whether a file is a part of what records."""
    return file.startswith(_OURS + "/") and not file.startswith(_SHOWN)


@cache
def short(file: str) -> str:
    """A file without its folders; of an installed package, with those within it.

    >>> short("/home/me/net/train.py"), short("/a/site-packages/torch/optim/adam.py")
    ('train.py', 'torch/optim/adam.py')
    """
    if file.startswith("<"):
        return file
    inside = _PACKAGES.sub("", file)
    if inside != file:
        return inside
    library = next((folder for folder in _libraries() if file.startswith(folder)), "")
    return file.removeprefix(library) if library else re.split(r"[/\\]", file)[-1]


def function(code: CodeType, line: int | None) -> str:
    """A function and a line of it, ``Net.forward (model.py:12)``; without the functions that it is defined in."""
    name = code.co_qualname.rpartition("<locals>.")[2].replace(";", ",")
    return f"{name} ({short(code.co_filename)}:{line or code.co_firstlineno})"


def _is_library(file: str) -> bool:
    return file.startswith(("<", *_libraries())) or _PACKAGES.match(file) is not None


def caller() -> FrameType | None:
    """The innermost frame of the program's own code; without one, of a library's."""
    library: FrameType | None = None
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to see who calls
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_ours(file):
            if not _is_library(file):
                return frame
            library = library or (None if "/torch/utils/data/" in file else frame)
        frame = frame.f_back
    return library


def file_and_line(frame: FrameType | None) -> str:
    """The file of a frame without folders, and its line."""
    return "" if frame is None else f"{short(frame.f_code.co_filename)}:{frame.f_lineno}"
