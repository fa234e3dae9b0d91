"""``%%overlap``: record a cell and say why its copies were not hidden."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn

from overlapscope.capture.recorder import record
from overlapscope.diagnosis.run import diagnose
from overlapscope.errors import OverlapscopeError
from overlapscope.formatting import safe
from overlapscope.notebook.formatters import register
from overlapscope.read.opening import open_trace


def load(shell: Any) -> None:
    """What ``%load_ext overlapscope`` does."""

    @wraps(overlap)
    def magic(line: str, cell: str) -> Any:
        return overlap(shell, line, cell)

    register(shell)
    shell.register_magic_function(magic, "cell", "overlap")


def overlap(shell: Any, line: str, cell: str) -> Any:
    """Record this cell with torch's profiler, and show why its copies were not hidden.

    ``%%overlap [-o FILE] [--stacks] [--device cuda|cpu]``

    ``-o FILE`` keeps the trace; ``--stacks`` records Python call stacks, so that findings name lines; ``--device cpu``
    tries it without a GPU. The value of the cell is its `Diagnosis`. Where the cell cannot be recorded, it runs all the
    same, and a sentence says why. Cells with ``await`` outside of a function cannot be recorded.
    """
    options = _parser().parse_args(_words(line))
    code = shell.transform_cell(cell)
    name = shell.compile.cache(code, shell.execution_count, raw_code=cell)  # so that tracebacks show its lines
    compiled = compile(code, name, "exec")
    with tempfile.TemporaryDirectory() as folder:
        path = options.output or Path(folder) / "cell.json.gz"
        recording = record(path, stacks=options.stacks, device=options.device)
        begun = ended = False
        try:
            with recording:
                begun = True
                exec(compiled, shell.user_ns)  # noqa: S102 - the cell
                ended = True
            return diagnose(open_trace(path)) if recording.saved else None
        except OverlapscopeError as error:
            if begun and not ended:  # the cell's own
                raise
            _say(error)
    if not begun:
        exec(compiled, shell.user_ns)  # noqa: S102 - the cell
    return None


def _say(error: OverlapscopeError) -> None:
    print(f"overlapscope: {safe(str(error))}", file=sys.stderr)  # noqa: T201 - there is nobody else to say it


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        _refuse(str(error))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say it as notebooks do, instead of ending the program."""
        _refuse(message)


def _refuse(message: str) -> NoReturn:
    from IPython.core.error import UsageError

    raise UsageError(f"%%overlap: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%%overlap", add_help=False, allow_abbrev=False)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--stacks", action="store_true")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    return parser
