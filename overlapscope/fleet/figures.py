"""What each rank did in a step: times that can be compared between ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from overlapscope.fleet.groups import total
from overlapscope.fleet.lateness import Arrivals
from overlapscope.model.columns import Bool, Int64

if TYPE_CHECKING:
    import pandas

STEP, KERNELS, WAITING, TRANSFER, COLLECTIVES, COPIES, IDLE = (
    "step",
    "kernels",
    "waiting in collectives",
    "transfer in collectives",
    "exposed collectives",
    "exposed copies",
    "idle",
)
_OF_STEP = {
    KERNELS: "kernels_ns",
    COLLECTIVES: "exposed_collectives_ns",
    COPIES: "exposed_copies_ns",
    IDLE: "idle_ns",
}
Times = Mapping[str, Int64]
"""A time of each member, or of each row, by what it is."""


@dataclass(frozen=True, eq=False)
class Figures:
    """Times of each member in its average step; ``steps`` is how many it has, 0 for one that is not used.

    ``idle`` is its idle time by rule and kind. Where a trace has no steps, all of it counts as one. Of a rank with
    several GPUs it is the average of these.
    """

    steps: Int64
    times: Times
    idle: Mapping[tuple[str, str], Int64]

    @property
    def step_ns(self) -> int:
        """The average step of the median rank; 0 where no rank has one."""
        used = self.times[STEP][self.steps > 0]
        return int(np.median(used)) if len(used) else 0


def figures(steps: pandas.DataFrame, idle: pandas.DataFrame, members: int) -> Figures:
    """The figures of all members; both tables have a column ``member``."""
    steps = steps[steps["member"] >= 0]
    idle = idle[idle["member"] >= 0]
    member = steps["member"].to_numpy(np.int64)
    count = np.bincount(member, minlength=members)  # of steps, once for each GPU of the rank
    alone = steps.drop_duplicates(["member", "step"])["member"].to_numpy(np.int64)
    times = {name: _mean(values, member, count) for name, values in step_times(steps).items()}
    by_rule = {
        (str(code), str(kind)): _mean(rows["idle_ns"].to_numpy(np.int64), rows["member"].to_numpy(np.int64), count)
        for (code, kind), rows in idle.groupby(["code", "kind"], sort=True)
    }
    return Figures(np.bincount(alone, minlength=members), times, by_rule)


def step_times(steps: pandas.DataFrame) -> Times:
    """The times of each row of the table of steps."""
    columns = {STEP: steps["end_ns"] - steps["start_ns"]} | {name: steps[column] for name, column in _OF_STEP.items()}
    return {name: values.to_numpy(np.int64) for name, values in columns.items()}


def collective_times(arrived: Arrivals, shared: Bool, steps: Int64) -> Times:
    """How long each member waits in collectives for the last rank, and for the transfer, in an average shared step."""
    rows, judged = arrived.rows, (arrived.counts & shared)[arrived.rows.collective]
    waits = np.where(judged, arrived.waits_ns, 0)
    moves = np.where(judged, np.maximum(rows.end_ns - arrived.arrival_ns[rows.collective], 0), 0)
    return {WAITING: _mean(waits, rows.member, steps), TRANSFER: _mean(moves, rows.member, steps)}


def read(folder: Path, table: str, columns: list[str] | None = None, filters: Any = None) -> pandas.DataFrame:
    """A table of all traces, or some of its columns and rows; integers that may be unknown are nullable."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = pq.read_table(folder / f"{table}.parquet", columns=columns, filters=filters)
    frame: pandas.DataFrame = found.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return frame


def _mean(values: Int64, member: Int64, count: Int64) -> Int64:
    result: Int64 = total(values, member, len(count)) // np.maximum(count, 1)
    return result
