"""Figures as files: the same figure gives the same bytes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from overlapscope.atomic_files import writing
from overlapscope.errors import OutputError

DOTS_PER_IN = 300
"""Of pixel files; nothing finer is drawn in vector files either."""
SCREEN_DOTS_PER_IN = 110
"""Of what is shown on a screen right away."""
_SUFFIXES = (".png", ".svg", ".pdf")


def check_suffix(path: Path) -> None:
    """Raise `OutputError` when a figure cannot be written to a file of this name."""
    if path.suffix.lower() not in _SUFFIXES:
        raise OutputError(f"{path}: cannot draw to {path.suffix or 'a file without suffix'}; use .png, .svg or .pdf")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure; the same one gives the same bytes, because there is no date in them.

    Raises:
        OutputError: the file cannot be written.
    """
    kind = path.suffix.lower()[1:]
    undated: dict[str, Any] | None = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with writing(path) as file:
        figure.savefig(file, format=kind, dpi=DOTS_PER_IN, metadata=undated)


def png_of(figure: Figure) -> bytes:
    """A figure as a PNG for the screen."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=SCREEN_DOTS_PER_IN)
    return file.getvalue()
