"""A prediction as plain data, and its JSON form (schema ``overlapscope.what-if/2``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from overlapscope.dependencies.simulate import CriticalPath, Simulation
from overlapscope.formatting import interval, share, time
from overlapscope.measure.windows import Window
from overlapscope.model.frames import Row
from overlapscope.model.trace import Trace
from overlapscope.whatif.change import Change
from overlapscope.whatif.interval import path_of
from overlapscope.whatif.retimed import retimed, window_after
from overlapscope.whatif.sources import Estimate

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "overlapscope.what-if/2"


CALIBRATED, IN_PART, UNKNOWN = "calibrated", "in part", "unknown"
"""How much is known of what the profiler cost."""


class _Expected:
    """The time that is expected on one basis, with or without the profiler: what its ``estimate`` says."""

    estimate: Estimate

    @property
    def predicted_ns(self) -> int:
        """The window's length with the changes."""
        return self.estimate.predicted_ns

    @property
    def low_ns(self) -> int:
        """The least that is expected."""
        return self.estimate.low_ns

    @property
    def high_ns(self) -> int:
        """The most that is expected."""
        return self.estimate.high_ns


@dataclass(frozen=True)
class Unprofiled(_Expected, Row):
    """The predicted time without the cost of the profiler, in ns.

    ``cost`` says how much is known of that: ``calibrated``; ``in part``, what shows in a trace without a calibration,
    such as full buffers, and what operators take around those in them; or ``unknown``: then the time is the recorded
    one, and the interval reaches down by what the profiler usually costs. ``event_ns`` is what it spent for each event
    that it recorded, as far as known.
    """

    cost: str
    event_ns: float
    simulated_ns: int
    estimate: Estimate

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return {"cost": self.cost, "simulated_ns": self.simulated_ns} | _plain(self.estimate)


@dataclass(frozen=True, eq=False)
class Prediction(_Expected):
    """The time that a window would take if something were different.

    Attributes:
        trace: the trace.
        window: what was measured.
        changes: what would be different.
        measured_ns: length of the window in the trace.
        simulated_ns: its length in the simulation with nothing changed, which gives the trace's times by construction.
            How good the model is shows where something changes, and in ``unprofiled``.
        estimate: its length with the changes under the profiler, ``predicted_ns``, and the interval in which it is
            expected, ``low_ns`` to ``high_ns``, with the reasons for its width.
        unprofiled: the same without the profiler's cost, as far as that is known. For a trace without calls it reaches
            down to what keeps the GPU busy.
        narrowed_by: which recording would make the interval narrower; None where neither basis has a wide one.
        assumptions: what the prediction rests on.
        granted: those of them that make wrong results where they do not hold: what the host must not do early.
        in_order: the rules whose races are in order in it, though not in the trace.
        before: the simulation with nothing changed.
        simulation: the simulation with the changes.
    """

    trace: Trace
    window: Window
    changes: tuple[Change, ...]
    measured_ns: int
    simulated_ns: int
    estimate: Estimate
    unprofiled: Unprofiled
    narrowed_by: str | None
    assumptions: tuple[str, ...]
    granted: tuple[str, ...]
    in_order: tuple[str, ...]
    before: Simulation
    simulation: Simulation

    @property
    def saving_ns(self) -> int:
        """The time that the changes save, against the simulation with nothing changed, in ns."""
        return self.simulated_ns - self.predicted_ns

    @property
    def stated(self) -> Prediction | Unprofiled:
        """The times that an audit states: without the profiler where all of its cost is known, else as recorded."""
        return self.unprofiled if self.unprofiled.cost == CALIBRATED else self

    @property
    def wide(self) -> tuple[str, ...]:
        """A sentence on how wide the interval is, and what would narrow it; nothing where it is not wide."""
        if self.narrowed_by is None:
            return ()
        recorded, without = (share(each.width, 1) for each in (self.estimate, self.unprofiled.estimate))
        widths = f"{recorded} wide under the profiler, {without} without it"
        return (f"the interval is {widths}; narrower by {self.narrowed_by}",)

    @cached_property
    def after(self) -> Trace:
        """The simulated trace, to be measured and drawn like the original."""
        return retimed(self.simulation)

    @property
    def window_after(self) -> Window:
        """The window of the simulated trace that stands for the measured one."""
        return window_after(self.simulation, self.window)

    @cached_property
    def made_of(self) -> dict[str, int]:
        """The parts of the predicted run, with the profiler, along its critical path, in ns, the longest first."""
        return self.critical_path().made_of

    def critical_path(self, *, changed: bool = True) -> CriticalPath:
        """The chain of calls and device work that the window's length is made of, with the changes or without.

        One row for each dependency, the first in time first: what waited, for what, by which kind of dependency, and
        the time that it adds; see `CriticalPath`.
        """
        return path_of(self.simulation if changed else self.before, self.window)

    @property
    def sentence(self) -> str:
        """The prediction in one sentence."""
        what = " + ".join(map(str, self.changes)) or "nothing changed"
        text = f"{what}: {time(self.simulated_ns)} -> {_expected(self.estimate)}"
        change = f"{share(abs(self.saving_ns), self.simulated_ns)} {'less' if self.saving_ns >= 0 else 'more'}"
        text += f", {change}" if self.simulated_ns else ""
        without = self.unprofiled
        if without.cost != CALIBRATED:
            return f"{text}; as recorded, with the profiler's cost."
        return f"{text}; without the profiler {time(without.simulated_ns)} -> {_expected(without.estimate)}."

    def to_dict(self) -> dict[str, Any]:
        """The prediction as JSON-ready data."""
        return {
            "schema": SCHEMA,
            "window": {
                "range": self.window.name,
                "start_ns": self.window.first_ns,
                "end_ns": self.window.last_ns,
                "occurrences": len(self.window.start_ns),
            },
            "changes": [str(change) for change in self.changes],
            "measured_ns": self.measured_ns,
            "simulated_ns": self.simulated_ns,
            **_plain(self.estimate),
            "unprofiled": self.unprofiled.to_dict(),
            "narrowed_by": self.narrowed_by,
            "assumptions": list(self.assumptions),
            "made_of": self.made_of,
        }

    def to_pandas(self) -> pd.DataFrame:
        """One row with the times of the trace, and one without the profiler's cost, as far as known; in ns."""
        import pandas as pd

        names = ["simulated_ns", "predicted_ns", "low_ns", "high_ns"]
        rows = [[getattr(each, key) for key in names] for each in (self, self.unprofiled)]
        return pd.DataFrame(rows, pd.Index(["recorded", "unprofiled"], name="times"), names)

    def __repr__(self) -> str:
        return f"<Prediction: {self.sentence}>"


def _plain(estimate: Estimate) -> dict[str, Any]:
    """The times, and the reasons for the width of the interval."""
    times = {"predicted_ns": estimate.predicted_ns, "low_ns": estimate.low_ns, "high_ns": estimate.high_ns}
    return times | {"uncertainty": [part.to_dict() for part in estimate.parts]}


def _expected(estimate: Estimate) -> str:
    """The interval and the time in it that is most likely; only that where the interval is not wider."""
    return interval(estimate.low_ns, estimate.high_ns, estimate.predicted_ns)
