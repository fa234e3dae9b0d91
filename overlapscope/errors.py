"""Every error that overlapscope raises on purpose.

    OverlapscopeError                    the base class; ``except OverlapscopeError`` catches all
    ├── TraceError                       a trace cannot be used
    │   ├── TraceNotFound                no such file, or not readable; also a FileNotFoundError
    │   ├── UnknownTraceFormat           the file has no known trace format; also a ValueError
    │   └── UnusableTrace                a known format without a readable event; also a ValueError
    ├── RangeNotFound                    no annotated range of that name; also a KeyError
    ├── WindowEmpty                      nothing in the window, or in the selected lanes; also a ValueError
    ├── ChangeNotUnderstood              no such change of a program, or malformed; also a ValueError
    ├── BudgetNotUnderstood              limits, or a stored baseline, that are malformed; also a ValueError
    ├── OutputError                      a result cannot be written; also an OSError
    ├── ClusterError                     the cluster that was asked for cannot be used; also a RuntimeError
    └── CaptureError                     recording is not possible here; also a RuntimeError

Each class has a ``code`` that stays the same between versions, for scripts. ``str(error)`` is one sentence for a person
to act on.
"""

from __future__ import annotations

from typing import ClassVar


class OverlapscopeError(Exception):
    """Base class of the documented errors; its text is one sentence for a person to act on."""

    code: ClassVar[str] = "error"


class TraceError(OverlapscopeError):
    """A trace cannot be used."""

    code = "trace"


class TraceNotFound(TraceError, FileNotFoundError):
    """The path names no file that can be read."""

    code = "trace-not-found"


class UnknownTraceFormat(TraceError, ValueError):
    """The file is readable, but is neither a Kineto trace nor an Nsight Systems SQLite export."""

    code = "unknown-format"


class UnusableTrace(TraceError, ValueError):
    """The format is known, but no event in the file can be read."""

    code = "unusable-trace"


class RangeNotFound(OverlapscopeError, KeyError):
    """The trace has no annotation or NVTX range of the given name."""

    code = "range-not-found"

    def __str__(self) -> str:
        """The plain sentence; a KeyError would quote it."""
        return Exception.__str__(self)


class WindowEmpty(OverlapscopeError, ValueError):
    """There is nothing in the window, or in the selected lanes."""

    code = "window-empty"


class ChangeNotUnderstood(OverlapscopeError, ValueError):
    """There is no such change of a program, or it is malformed."""

    code = "change"


class BudgetNotUnderstood(OverlapscopeError, ValueError):
    """Limits, or a stored baseline, are malformed; the text names the key."""

    code = "budget"


class OutputError(OverlapscopeError, OSError):
    """A result cannot be written where it was asked for."""

    code = "output"


class CaptureError(OverlapscopeError, RuntimeError):
    """Recording is not possible on this machine, or in this program."""

    code = "capture"


class ClusterError(OverlapscopeError, RuntimeError):
    """The cluster that traces should be mapped on cannot be used."""

    code = "cluster"
