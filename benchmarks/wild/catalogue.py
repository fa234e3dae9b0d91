"""The loops, by name: what a file of `loops` is called."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it imports torch, which the names do not need
    from benchmarks.wild.loop import Loop

NAMES = tuple(sorted(path.stem for path in (Path(__file__).parent / "loops").glob("[!_]*.py")))


def loop(name: str) -> Loop:
    """The loop of this name; imports its library, and no other."""
    found: Loop = import_module(f"benchmarks.wild.loops.{name}").LOOP
    return found
