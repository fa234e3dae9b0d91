"""Every error that overlapscope raises on purpose.

    OverlapscopeError                    the root; ``except OverlapscopeError`` catches all
    ├── TraceError                       a trace cannot be used
    │   ├── TraceNotFound                no such file, or not readable
    │   ├── UnknownTraceFormat           readable, but no trace that we know
    │   └── UnusableTrace                a known format with nothing to read in it
    ├── RangeNotFound                    no annotated range of that name
    ├── WindowEmpty                      nothing of the trace is in the window or the lanes asked for
    ├── ChangeNotUnderstood              no such change of a program, or not of that form
    ├── OutputError                      a result cannot be written where it was asked for
    └── CaptureError                     recording cannot start here (no GPU, no torch, ...)

Each class has a ``code`` that stays the same between versions, for scripts that match on it.
"""

from __future__ import annotations

from typing import ClassVar


class OverlapscopeError(Exception):
    """Root of the documented errors; its text is one sentence for a person to act on."""

    code: ClassVar[str] = "error"


class TraceError(OverlapscopeError):
    """A trace cannot be used."""

    code = "trace"


class TraceNotFound(TraceError):
    """The path names no file that can be read."""

    code = "trace-not-found"


class UnknownTraceFormat(TraceError):
    """The file is readable but is no Kineto trace and no Nsight Systems SQLite export."""

    code = "unknown-format"


class UnusableTrace(TraceError):
    """The format is known, but nothing in the file can be read as an event."""

    code = "unusable-trace"


class RangeNotFound(OverlapscopeError):
    """The trace has no annotation or NVTX range of the name asked for."""

    code = "range-not-found"


class WindowEmpty(OverlapscopeError):
    """Nothing of the trace is in the window, or in the lanes, that were asked for."""

    code = "window-empty"


class ChangeNotUnderstood(OverlapscopeError):
    """A change to predict is none that we know, or not written as one."""

    code = "change"


class OutputError(OverlapscopeError):
    """A result cannot be written where it was asked for."""

    code = "output"


class CaptureError(OverlapscopeError):
    """Recording cannot start on this machine."""

    code = "capture"
