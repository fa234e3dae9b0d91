"""``%%overlap``: record a cell and say why its copies were not hidden."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from overlapscope.capture.recorder import record
from overlapscope.diagnosis.engine import diagnose
from overlapscope.errors import OverlapscopeError
from overlapscope.notebook.formatters import register
from overlapscope.read.opening import open_trace
from overlapscope.words import safe


def load(shell: Any) -> None:
    """What ``%load_ext overlapscope`` does."""
    register(shell)
    shell.register_magic_function(lambda line, cell: overlap(shell, line, cell), "cell", "overlap")


def overlap(shell: Any, line: str, cell: str) -> Any:
    """Run a cell under the profiler; its `Diagnosis`, or None where that could not be made, with a sentence.

    The cell runs whether or not it can be recorded, and an error of its own is the notebook's.

    ``%%overlap [-o FILE] [--stacks] [--device cpu]``
    """
    options = _parser().parse_args(shlex.split(line))
    with tempfile.TemporaryDirectory() as folder:
        path = options.output or Path(folder) / "cell.json.gz"
        recording = record(path, stacks=options.stacks, device=options.device)
        try:
            recording.check()
        except OverlapscopeError as error:
            _say(error)
            shell.run_cell(cell)
            return None
        try:
            with recording:
                done = shell.run_cell(cell)
            if not done.success or not recording.saved:
                return None
            return diagnose(open_trace(path))
        except OverlapscopeError as error:
            _say(error)
            return None


def _say(error: OverlapscopeError) -> None:
    print(f"overlapscope: {safe(str(error))}", file=sys.stderr)  # noqa: T201 - there is nobody else to say it


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="%%overlap", description=overlap.__doc__)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="keep the trace here")
    parser.add_argument("--stacks", action="store_true", help="record Python call stacks too")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to try a cell without a GPU")
    return parser
