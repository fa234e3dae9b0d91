"""Run commands of overlapscope for the documentation, on the sample traces."""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import chdir
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from typer.testing import CliRunner

from overlapscope.cli.main import app

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from benchmarks.fleet_ranks import Job, make  # noqa: E402 - a module beside the package

RANKS = Job(16, stragglers={11: "pageable"}, missing=(5,), twice=(9,))
"""The traces in the folder ``ranks`` of commands that ask for it."""
GAP = "..."
"""Stands for what is left out of an output."""
_CODES = re.compile(r"\x1b\[[\d;]*m")


def printed(command: str, *, width: int = 80, colours: bool = False) -> list[str]:
    """The lines that a command prints, in a folder with nothing but the sample traces, and made ranks."""
    _, *arguments = shlex.split(command.replace("\\\n", ""))
    force = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": None}
    plain = {"FORCE_COLOR": None, "NO_COLOR": "1"}
    env = {"COLUMNS": str(width)} | (force if colours else plain)
    with TemporaryDirectory() as folder, chdir(folder):
        Path("sample_traces").symlink_to(ROOT / "sample_traces")
        if "ranks/" in arguments:
            make(Path("ranks"), RANKS)
        result = CliRunner().invoke(app, arguments, env=env)
    if result.exit_code:
        raise SystemExit(f"{command}: {result.output}")
    return [line.rstrip() for line in result.stdout.splitlines()]


def shortened(lines: list[str], begins: list[str]) -> list[str]:
    """The paragraphs that begin with one of some texts; a gap stands for each run of others."""

    def chosen(paragraph: list[str]) -> bool:
        return _CODES.sub("", paragraph[0]).startswith(tuple(begins))

    paragraphs = [list(part) for empty, part in groupby(lines, key=lambda line: not line) if not empty]
    if sum(map(chosen, paragraphs)) != len(begins):
        raise SystemExit(f"there is not one paragraph for each of {begins}")
    shown: list[str] = []
    for kept, run in groupby(paragraphs, key=chosen):
        for paragraph in run if kept else [[GAP]]:
            shown += [*paragraph, ""]
    return shown[:-1]
