"""What tables are made of: a trace, or what was found in one."""

from __future__ import annotations

from dataclasses import replace

from overlapscope.diagnosis.config import DEFAULT, DiagnosisConfig
from overlapscope.diagnosis.finding import Diagnosis
from overlapscope.diagnosis.run import diagnose
from overlapscope.measure.windows import Window, window_of
from overlapscope.model.trace import Trace
from overlapscope.report.data import Audit

WITHOUT_PLAN = replace(DEFAULT, simulate=False)
"""For tables without a column of what fixes would save."""


def diagnosis_of(found: Trace | Diagnosis | Audit, config: DiagnosisConfig = DEFAULT) -> Diagnosis:
    """The diagnosis that was given, or that of an audit; a trace is diagnosed as a whole.

    Raises:
        TypeError: it is none of these.
    """
    if isinstance(found, Trace):
        return diagnose(found, config=config)
    if isinstance(found, Audit):
        return found.diagnosis
    if isinstance(found, Diagnosis):
        return found
    raise _not(found)


def trace_and_window(found: Trace | Diagnosis | Audit, within: str | Window | None = None) -> tuple[Trace, Window]:
    """The trace that was given or is behind what was, and the window: ``within``, else that of what was given.

    Raises:
        TypeError: it is none of these.
        RangeNotFound: the trace has no such range.
    """
    if isinstance(found, Trace):
        return found, window_of(found, within)
    if isinstance(found, Diagnosis | Audit):
        return found.trace, found.window if within is None else window_of(found.trace, within)
    raise _not(found)


def _not(found: object) -> TypeError:
    return TypeError(f"expected an opened trace, a Diagnosis or an Audit, not {type(found).__name__}")
