"""What a prediction is: plain data, and its JSON form (schema ``overlapscope.what-if/2``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from overlapscope.formatting import share, time
from overlapscope.measure.windows import Window
from overlapscope.model.trace import Trace
from overlapscope.replay.changes import Change
from overlapscope.dependencies.simulate import Simulation
from overlapscope.whatif.retimed import moved
from overlapscope.dependencies.critical_path import critical_path, made_of

SCHEMA = "overlapscope.what-if/2"


@dataclass(frozen=True)
class Without:
    """The same without some cost of the profiler, in ns; ``event_ns`` is what it spent for each event it recorded."""

    event_ns: float
    replayed_ns: int
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
        replayed_ns: its length in the replay with nothing changed: the same, since the graph is made so. How good the
            model is shows where something changes, and in ``unprofiled``.
        predicted_ns: its length with the changes.
        low_ns: if nothing waits for copies that are moved to another stream, coincidences order nothing then, and
            kernels run at once even where each fills the device.
        high_ns: if buffers are reused, so that moved copies still wait for the work before the copies before them; and
            pieces that are gathered are in no cache, and needed as views of what arrives.
        unprofiled: without the profiler's own cost; None where the trace does not know that.
        partly_unprofiled: without the part of the profiler's cost that shows in a trace without a calibration: what it
            recorded of its own affairs, such as full buffers, and what operators take around those in them. None where
            there is no such part in the window, and where ``unprofiled`` says more.
        basis: what the prediction rests on.
        simulated: the replay with the changes.
    """

    trace: Trace
    window: Window
    changes: tuple[Change, ...]
    measured_ns: int
    replayed_ns: int
    predicted_ns: int
    low_ns: int
    high_ns: int
    unprofiled: Without | None
    partly_unprofiled: Without | None
    basis: tuple[str, ...]
    simulated: Simulation

    @property
    def saving_ns(self) -> int:
        """What the changes win, against the replay with nothing changed."""
        return self.replayed_ns - self.predicted_ns

    @property
    def own(self) -> Prediction | Without:
        """Whose times are those of the program itself: without what is known of the profiler."""
        return self.unprofiled or self.partly_unprofiled or self

    @property
    def error(self) -> float:
        """How far the unchanged replay is from the trace, as a share of it."""
        return abs(self.replayed_ns - self.measured_ns) / self.measured_ns if self.measured_ns else 0.0

    @cached_property
    def after(self) -> Trace:
        """The replayed trace, to be measured and drawn like the original."""
        return moved(self.simulated)

    @cached_property
    def made_of(self) -> dict[str, int]:
        """What the predicted run, with the profiler, is made of along its critical path, in ns, the longest first."""
        graph = self.simulated.graph
        inside = np.flatnonzero((graph.time_ns >= self.window.first_ns) & (graph.time_ns <= self.window.last_ns))
        if not len(inside):
            return {}
        last = int(inside[np.argmax(self.simulated.time_ns[inside])])
        return made_of(self.simulated, critical_path(self.simulated, last, self.window.first_ns))

    @property
    def sentence(self) -> str:
        """What it says, in one sentence."""
        what = " + ".join(map(str, self.changes)) or "nothing changed"
        text = f"{what}: {time(self.replayed_ns)} -> {time(self.predicted_ns)}"
        text += _bounds(self.low_ns, self.high_ns)
        text += f", {share(self.saving_ns, self.replayed_ns)} less" if self.replayed_ns else ""
        text += f" (replay error {100 * self.error:.2g} %)"
        for what, without in (
            ("the profiler", self.unprofiled),
            ("what shows of the profiler", self.partly_unprofiled),
        ):
            if without is not None:
                text += f"; without {what} {time(without.replayed_ns)} -> {time(without.predicted_ns)}"
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
            "replay_error": self.error,
            "replayed_ns": self.replayed_ns,
            "predicted_ns": self.predicted_ns,
            "low_ns": self.low_ns,
            "high_ns": self.high_ns,
            "unprofiled": _to_dict(self.unprofiled),
            "partly_unprofiled": _to_dict(self.partly_unprofiled),
            "basis": list(self.basis),
            "made_of": self.made_of,
        }

    def __repr__(self) -> str:
        return f"<Prediction: {self.sentence}>"


def _to_dict(without: Without | None) -> dict[str, int] | None:
    if without is None:
        return None
    return {key: getattr(without, key) for key in ("replayed_ns", "predicted_ns", "low_ns", "high_ns")}


def _bounds(low_ns: int, high_ns: int) -> str:
    return f" ({time(low_ns)} to {time(high_ns)})" if low_ns < high_ns else ""
