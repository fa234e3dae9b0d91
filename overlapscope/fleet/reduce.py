"""The reduce: all results of a folder in, the tables of the jobs and their summary out; and opening these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from overlapscope.atomic_files import writing
from overlapscope.errors import OutputError
from overlapscope.fleet.document import summaries
from overlapscope.fleet.figures import numbered, step_times
from overlapscope.fleet.job import Job, job_of
from overlapscope.fleet.jobs import jobs_of
from overlapscope.fleet.ranks import ranks_of
from overlapscope.fleet.schema import MAPPED, OF_JOBS, STEP, schema
from overlapscope.fleet.store import outcomes
from overlapscope.fleet.tables import collective_ends, frame_of, gather, trace_infos
from overlapscope.formatting import encodable
from overlapscope.model.columns import Int64

SUMMARY = "summary.txt"
TABLES = (*OF_JOBS, *MAPPED)
"""The tables of a folder: what ranks have in common first, then the rows of all traces."""


@dataclass(frozen=True)
class Fleet:
    """The results of ``overlapscope fleet`` in a folder; tables are read when they are asked for."""

    folder: Path

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of its tables."""
        return TABLES

    @property
    def summary(self) -> str:
        """The text that the command printed."""
        return (self.folder / SUMMARY).read_text()

    def to_arrow(self, table: str) -> pa.Table:
        """One of its tables.

        Raises:
            KeyError: there is no such table.
        """
        if table not in TABLES:
            raise KeyError(f"no table {table!r}; there are {', '.join(TABLES)}")
        return pq.read_table(self.folder / f"{table}.parquet")

    def to_pandas(self, table: str) -> pd.DataFrame:
        """One of its tables, as a frame.

        Raises:
            KeyError: there is no such table.
        """
        return frame_of(self.to_arrow(table))

    def __repr__(self) -> str:
        first = self.summary.splitlines()
        return f"<Fleet {self.folder}: {first[0] if first else 'empty'}>"


def open_fleet(folder: str | Path) -> Fleet:
    """Open what ``overlapscope fleet -o FOLDER`` wrote.

    Raises:
        OutputError: the folder has no results of a whole run.
    """
    path = Path(folder)
    if not (path / SUMMARY).is_file():
        raise OutputError(f"{path}: has no results of a fleet; run `overlapscope fleet TRACES -o {path}` first")
    return Fleet(path)


def reduce_folder(folder: Path) -> tuple[Job, ...]:
    """Write the tables and the summary of the jobs whose results the folder has; mostly one.

    Raises:
        OutputError: there are no results, or the tables cannot be written.
    """
    results = outcomes(folder)
    (folder / SUMMARY).unlink(missing_ok=True)  # it comes last, and says that all tables are of one run
    infos = trace_infos(folder, results)
    parts = jobs_of(infos, lambda number: collective_ends(folder, results[number]))
    ranks = [ranks_of([infos[number] for number in part.traces], part.traces) for part in parts]
    gather(folder, results, [each.members for each in ranks])
    jobs = tuple(job_of(folder, ranks[place], place + 1, part) for place, part in enumerate(parts))
    for name, rows in {"ranks": _ranks, "matched": _matched, "spread": _spread, "stragglers": _stragglers}.items():
        _write(folder / f"{name}.parquet", name, [{"job": job.number, **row} for job in jobs for row in rows(job)])
    with writing(folder / SUMMARY) as file:
        file.write(encodable(summaries(jobs)).encode())
    return jobs


def _write(path: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """Write a table; what no column has is left out."""
    with writing(path) as file:
        cells = [{key: encodable(cell) if isinstance(cell, str) else cell for key, cell in row.items()} for row in rows]
        pq.write_table(pa.Table.from_pylist(cells, schema=schema(name)), file, compression="zstd")


def _ranks(job: Job) -> Iterator[dict[str, Any]]:
    clocks, figures = job.clocks, job.figures
    for number, member in enumerate(job.members):
        aligned = bool(clocks.aligned[number]) and member.used
        yield vars(member) | {
            "matched": int(clocks.matched[number]),
            "aligned": aligned,
            "offset_ns": int(clocks.offset_ns[number]) if aligned else None,
            "error_ns": int(clocks.error_ns[number]) if aligned else None,
            "steps": int(figures.steps[number]),
            "step_ns": int(figures.times[STEP][number]),
        }


def _matched(job: Job) -> Iterator[dict[str, Any]]:

    arrived = job.arrived
    for number, label in enumerate(job.labels.to_dict("records")):
        judged, complete = bool(arrived.counts[number]), bool(job.absent.complete[number])
        yield {str(name): None if pd.isna(value) else value for name, value in label.items()} | {
            "ranks": int(arrived.ranks[number]),
            "judged": judged,
            "complete": complete,
            "last_rank": job.members[int(arrived.last[number])].rank if judged else None,
            "late_ns": int(arrived.late_ns[number]) if judged else None,
            "wait_ns": int(arrived.wait_ns[number]) if judged else None,
            "transfer_ns": int(arrived.transfer_ns[number]) if judged and complete else None,
            "error_ns": int(arrived.error_ns[number]),
        }


def _spread(job: Job) -> Iterator[dict[str, Any]]:
    used = job.figures.used
    for name, values in job.figures.times.items() if len(used) else ():
        yield _spread_of(job, name, None, used, values[used])
    for step, rows in numbered(job.steps).groupby("step", sort=True):
        for name, values in step_times(rows).items():
            yield _spread_of(job, name, int(str(step)), rows["member"].to_numpy(np.int64), values)


def _spread_of(job: Job, name: str, step: int | None, members: Int64, values: Int64) -> dict[str, Any]:
    order = np.argsort(values, kind="stable")
    least, most = int(order[0]), int(order[-1])
    return {
        "figure": name,
        "step": step,
        "median_ns": int(np.median(values)),
        "least_ns": int(values[least]),
        "most_ns": int(values[most]),
        "least_rank": job.members[int(members[least])].rank,
        "most_rank": job.members[int(members[most])].rank,
    }


def _stragglers(job: Job) -> Iterator[dict[str, Any]]:
    for late in job.late.ranks:
        cause = vars(late.causes[0]) if late.causes else {"code": "", "kind": ""}
        places = vars(late.place) | {"place_late_ns": late.place.late_ns}
        yield vars(job.members[late.member]) | cause | places | vars(late)
