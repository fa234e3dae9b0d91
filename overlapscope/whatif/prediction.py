"""What a prediction is: plain data, and its JSON form (schema ``overlapscope.what-if/2``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from overlapscope.dependencies.critical_path import CriticalPath, critical_path
from overlapscope.dependencies.simulate import Simulation
from overlapscope.formatting import share, time
from overlapscope.measure.windows import Window
from overlapscope.model.frames import Row
from overlapscope.model.trace import Trace
from overlapscope.whatif.change import Change
from overlapscope.whatif.retimed import retimed

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "overlapscope.what-if/2"


@dataclass(frozen=True)
class Unprofiled(Row):
    """The same without some cost of the profiler, in ns; ``event_ns`` is what it spent for each event it recorded."""

    event_ns: float
    simulated_ns: int
    predicted_ns: int
    low_ns: int
    high_ns: int


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a window would take if something were different.

    Attributes:
        trace: the trace.
        window: what was measured.
        changes: what would be different.
        measured_ns: length of the window in the trace.
        simulated_ns: its length in the simulation with nothing changed, which gives the trace's times by construction.
            How good the model is shows where something changes, and in ``unprofiled``.
        predicted_ns: its length with the changes.
        low_ns: if nothing waits for copies that are moved to another stream, and coincidences order nothing then.
        high_ns: if buffers are reused, so that moved copies still wait for the work before the copies before them; and
            pieces that are packed are in no cache, and needed as views of what arrives.
        unprofiled: without the profiler's own cost; None where the trace does not know that.
        partly_unprofiled: without the part of the profiler's cost that shows in a trace without a calibration: what it
            recorded of its own overhead, such as full buffers, and what operators take around those in them. None where
            there is no such part in the window, and where ``unprofiled`` says more.
        assumptions: what the prediction rests on.
        before: the simulation with nothing changed.
        simulation: the simulation with the changes.
    """

    trace: Trace
    window: Window
    changes: tuple[Change, ...]
    measured_ns: int
    simulated_ns: int
    predicted_ns: int
    low_ns: int
    high_ns: int
    unprofiled: Unprofiled | None
    partly_unprofiled: Unprofiled | None
    assumptions: tuple[str, ...]
    before: Simulation
    simulation: Simulation

    @property
    def saving_ns(self) -> int:
        """What the changes save, against the simulation with nothing changed."""
        return self.simulated_ns - self.predicted_ns

    @property
    def own(self) -> Prediction | Unprofiled:
        """Whose times are those of the program itself: without what is known of the profiler."""
        return self.unprofiled or self.partly_unprofiled or self

    @property
    def stated(self) -> Prediction | Unprofiled:
        """Whose times an audit states: without the profiler where all of its cost is known, else as recorded."""
        return self.unprofiled or self

    @cached_property
    def after(self) -> Trace:
        """The simulated trace, to be measured and drawn like the original."""
        return retimed(self.simulation)

    @cached_property
    def made_of(self) -> dict[str, int]:
        """What the predicted run, with the profiler, is made of along its critical path, in ns, the longest first."""
        return self.critical_path().made_of

    def critical_path(self, *, changed: bool = True) -> CriticalPath:
        """The chain of calls and device work that the window's length is made of, with the changes or without.

        One row for each dependency, the first in time first: what waited, for what, by which kind of dependency, and
        the time that it adds; see `CriticalPath`.
        """
        simulation = self.simulation if changed else self.before
        graph = simulation.graph
        inside = np.flatnonzero((graph.time_ns >= self.window.first_ns) & (graph.time_ns <= self.window.last_ns))
        if not len(inside):
            return CriticalPath.none(simulation)
        last = int(inside[np.argmax(simulation.time_ns[inside])])
        return critical_path(simulation, last, self.window.first_ns)

    @property
    def sentence(self) -> str:
        """What it says, in one sentence."""
        what = " + ".join(map(str, self.changes)) or "nothing changed"
        text = f"{what}: {time(self.simulated_ns)} -> {time(self.predicted_ns)}"
        text += _bounds(self.low_ns, self.high_ns)
        text += f", {share(self.saving_ns, self.simulated_ns)} less" if self.simulated_ns else ""
        for what, without in (
            ("the profiler", self.unprofiled),
            ("what shows of the profiler", self.partly_unprofiled),
        ):
            if without is not None:
                text += f"; without {what} {time(without.simulated_ns)} -> {time(without.predicted_ns)}"
                text += _bounds(without.low_ns, without.high_ns)
        return text + "."

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
            "predicted_ns": self.predicted_ns,
            "low_ns": self.low_ns,
            "high_ns": self.high_ns,
            "unprofiled": _plain(self.unprofiled),
            "partly_unprofiled": _plain(self.partly_unprofiled),
            "assumptions": list(self.assumptions),
            "made_of": self.made_of,
        }

    def to_pandas(self) -> pd.DataFrame:
        """One row with the times of the trace, and one without the profiler's cost as far as known; times in ns."""
        import pandas as pd

        times = {"recorded": self, "unprofiled": self.unprofiled, "partly_unprofiled": self.partly_unprofiled}
        names = ("simulated_ns", "predicted_ns", "low_ns", "high_ns")
        rows = {name: [getattr(each, key) for key in names] for name, each in times.items() if each is not None}
        return pd.DataFrame.from_dict(rows, orient="index", columns=list(names)).rename_axis("times")

    def __repr__(self) -> str:
        return f"<Prediction: {self.sentence}>"


def _plain(without: Unprofiled | None) -> dict[str, int] | None:
    if without is None:
        return None
    return {key: value for key, value in without.to_dict().items() if key != "event_ns"}


def _bounds(low_ns: int, high_ns: int) -> str:
    low, high = time(low_ns), time(high_ns)
    return "" if low == high else f" ({low} to {high})"
