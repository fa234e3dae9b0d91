"""What IPython loads: the magic ``%%overlap``, and how it shows traces, audits, diagnoses and predictions.

It is loaded with overlapscope in every notebook, and imports what records and draws when a cell asks for it.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from overlapscope.errors import OverlapscopeError
from overlapscope.formatting import safe

_SHOWN = {
    "Analysis": ("overlapscope.analysis.analysis", "analysis_html"),
    "Trace": ("overlapscope.model.trace", "trace_html"),
    "Audit": ("overlapscope.report.data", "audit_html"),
    "Diagnosis": ("overlapscope.diagnosis.finding", "diagnosis_html"),
    "Prediction": ("overlapscope.whatif.prediction", "prediction_html"),
}


def register(shell: Any) -> None:
    """Let a running IPython show traces, audits, diagnoses and predictions with tables and a timeline."""
    formatter = shell.display_formatter.formatters["text/html"]
    for name, (module, function) in _SHOWN.items():
        formatter.for_type_by_name(module, name, _imported_later(function))


def _imported_later(function: str) -> Callable[[Any], str]:
    def show(result: Any) -> str:
        html: str = getattr(import_module("overlapscope.notebook.reprs"), function)(result)
        return html

    return show


def load(shell: Any) -> None:
    """Add the magic and the formats to a running IPython, for ``%load_ext overlapscope``."""

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
    from overlapscope.analysis.analysis import diagnose
    from overlapscope.capture.recorder import record
    from overlapscope.read.opening import open_trace

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
            if begun and not ended:  # an error of the cell itself
                raise
            _say(error)
    if not begun:
        exec(compiled, shell.user_ns)  # noqa: S102 - the cell
    return None


def _say(error: OverlapscopeError) -> None:
    print(f"overlapscope: {safe(str(error))}", file=sys.stderr)  # noqa: T201 - the only output of the cell


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
