"""Samples and made cases, each opened, diagnosed and audited once in a process: none of it can be changed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from overlapscope import Analysis, Audit, Trace, analyse, audit, open_trace
from overlapscope.diagnosis.finding import Diagnosis
from tests.conftest import SAMPLES


@cache
def trace_at(path: Path) -> Trace:
    return open_trace(path)


@cache
def analysis_of(path: Path, within: str | None = None) -> Analysis:
    return analyse(trace_at(path), within)


def diagnosis_of(path: Path, within: str | None = None) -> Diagnosis:
    """Without what fixes would save, which takes five sixths of the time."""
    return analysis_of(path, within).recorded


def planned(path: Path, within: str | None = None) -> Diagnosis:
    """With what each fix saves."""
    return analysis_of(path, within).diagnosis


@cache
def audit_of(path: Path, within: str | None = None) -> Audit:
    return audit(analysis_of(path, within), plan=False)


def one_of_each(paths: Iterable[Path]) -> list[Path]:
    """The first by name of each workload and profiler, and every trace that is no sample."""
    ordered = sorted(paths)
    firsts = {(path.name.partition("-")[0], path.suffixes[-2]): path for path in reversed(ordered)}
    return [path for path in ordered if path.parent != SAMPLES or path in firsts.values()]


def swept(paths: Iterable[Path]) -> list[Any]:
    """Parameters of a test: one of each is always run, the others by ``make sweep``."""
    every = sorted(paths)
    often = set(one_of_each(every))
    marks = [() if path in often else (pytest.mark.sweep,) for path in every]
    return [pytest.param(path, id=path.name, marks=mark) for path, mark in zip(every, marks, strict=True)]
