"""The whole text of commands on samples, each in a file here: what a change of words or figures does is seen as a diff.

``make golden`` writes the files anew; read the diff before you commit it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

from typer.testing import CliRunner

from overlapscope import __version__
from overlapscope.cli.main import app
from tests.conftest import SAMPLES

FOLDER = Path(__file__).parent
WRITE = "OVERLAPSCOPE_WRITE_GOLDEN"
WIDTH = 100
LIMITS = '[check]\npageable_bytes = 0\nscalar_reads_per_step = 0\n[check.ranges.train]\nno_findings = ["OVL001"]\n'
"""Limits for ``check``: some that the sample exceeds, some that it keeps."""

PAGEABLE, READ = "dataloader_train-pageable-blocking.json.gz", "dataloader_train-pinned-item.json.gz"
HEALTHY, HAZARD = "prefetcher-prefetcher.json.gz", "pinning_guide-read-early.json.gz"
NSYS, CALIBRATED = "gemm_copy-pinned-kernels-first-blocking-same.sqlite.gz", "moe_prefetch-pageable.json.gz"
UNPINNED = "gemm_copy-pageable-copy-first-non-blocking-side.json.gz"
PINNING, QUEUED = "page_locking-each-step.json.gz", "copy_order-weights-first.json.gz"
TRACES = (PAGEABLE, READ, HEALTHY, HAZARD, NSYS, CALIBRATED, PINNING, QUEUED)
CHANGES = {
    PAGEABLE: "pin,non-blocking,side-stream",
    READ: "no-scalar-sync",
    NSYS: "non-blocking,side-stream",
    CALIBRATED: "pin",
    PINNING: "pin-ahead",
    QUEUED: "copy-first",
}
COMPARED = {
    "dataloader_train": (PAGEABLE, "dataloader_train-pinned-non-blocking.json.gz"),
    "moe_prefetch": (CALIBRATED, "moe_prefetch-ahead.json.gz"),
    "nsys": (NSYS, "gemm_copy-pinned-kernels-first-non-blocking-side.sqlite.gz"),
}


def _commands() -> Iterator[tuple[str, list[str]]]:
    for trace in TRACES:
        short = trace.split(".")[0]
        for command in ("audit", "doctor", "findings"):
            yield f"{command}-{short}", [command, trace]
    for command in ("copies", "gaps", "ranges"):
        for trace in (PAGEABLE, NSYS, HEALTHY):
            yield f"{command}-{trace.split('.')[0]}", [command, trace, "--top", "10"]
    yield "audit-within", ["audit", READ, "--within", "train"]
    yield "audit-gemm_copy-pageable", ["audit", UNPINNED, "--range", "gemm_copy"]
    yield "audit-several", ["audit", PAGEABLE, READ]
    for trace, changes in CHANGES.items():
        yield f"what-if-{trace.split('.')[0]}", ["what-if", trace, "--change", changes]
    yield "what-if-explained", ["what-if", READ, "--change", CHANGES[READ], "--explain"]
    for name, traces in COMPARED.items():
        yield f"compare-{name}", ["compare", *traces]
    for form in ("text", "markdown", "junit"):
        yield f"check-{form}", ["check", PAGEABLE, "--config", "{out}/limits.toml", "--format", form]
    yield "fleet", ["fleet", "ddp_pageable", "-o", "{out}/fleet", "-j", "1"]
    yield "audit-top", ["audit", PAGEABLE, "--top", "1"]
    yield "refused-file", ["audit", "nowhere.json.gz"]
    yield "refused-folder", ["audit", "ddp_pageable"]
    yield "refused-two-windows", ["audit", PAGEABLE, "--step", "1", "--from", "2"]
    yield "refused-device", ["copies", PAGEABLE, "--device", "4"]
    yield "refused-empty-window", ["what-if", PAGEABLE, "--change", "pin", "--from", "1e6"]
    yield "refused-step", ["report", PAGEABLE, "--step", "7"]
    yield "explain", ["explain"]
    yield "explain-rule", ["explain", "OVL001"]
    yield "explain-moved-rule", ["explain", "ovl014"]
    yield "explain-unknown", ["explain", "pageble"]
    yield "explain-change", ["explain", "pin"]
    for command in ("audit", "what-if", "compare", "check", "fleet"):
        yield f"help-{command}", [command, "--help"]
    yield "help", ["--help"]


COMMANDS = dict(_commands())


def text_of(name: str) -> str:
    """What a command prints: paths and versions that differ between machines are replaced."""
    with tempfile.TemporaryDirectory() as out, chdir(SAMPLES), _environment():
        Path(out, "limits.toml").write_text(LIMITS)
        result = CliRunner().invoke(app, [part.format(out=out) for part in COMMANDS[name]])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    shown = "overlapscope " + " ".join(COMMANDS[name]).format(out="OUT")
    parts = [f"$ {shown}", result.stdout.rstrip()]
    parts += [f"-- stderr\n{result.stderr.rstrip()}"] if result.stderr else []
    text = "\n".join([*parts, f"-- exit status {result.exit_code}", ""])
    return "\n".join(line.rstrip() for line in text.replace(out, "OUT").replace(__version__, "VERSION").split("\n"))


def same_as_golden(name: str, text: str) -> None:
    """Compare a text with its file, or write the file where the texts are made anew."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get(WRITE):
        path.write_text(text)
    assert path.exists(), f"{path} is not there: make golden"
    assert text == path.read_text(), f"if this is meant: make golden, and read the diff of {path.name}"


@contextmanager
def _environment() -> Iterator[None]:
    fixed = {"COLUMNS": str(WIDTH), "LC_ALL": "C.UTF-8", "OVERLAPSCOPE_CACHE": "off", "NO_COLOR": "1", "TERM": "dumb"}
    before = dict(os.environ)
    for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "CI"):
        os.environ.pop(name, None)
    os.environ.update(fixed)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
