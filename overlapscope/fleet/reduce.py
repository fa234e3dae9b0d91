"""The reduce: all results of a folder in, the tables of the job and its summary out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from overlapscope.atomic_files import writing
from overlapscope.fleet.config import DEFAULT, FleetConfig
from overlapscope.fleet.figures import STEP, step_times
from overlapscope.fleet.gather import collective_ends, found_traces, gather
from overlapscope.fleet.job import Job, job_of
from overlapscope.fleet.jobs import jobs_of
from overlapscope.fleet.ranks import ranks_of
from overlapscope.fleet.schema import fields
from overlapscope.fleet.store import outcomes
from overlapscope.fleet.summary_jobs import summaries
from overlapscope.formatting import encodable
from overlapscope.model.columns import Int64

SUMMARY = "summary.txt"
COLUMNS: dict[str, dict[str, str]] = {
    "ranks": {
        "job": "i number of the job, 1 where there is only one",
        "trace": "i number of the trace",
        "process": "i operating-system process id",
        "rank": "i rank, unknown where nothing says it",
        "origin": "s what the rank was taken from: content, name or order",
        "source": "s the trace",
        "host": "s host, from the name of the file",
        "node": "i number of the host, by the number of GPUs in each",
        "used": "b whether it is compared: not where it failed, or where the rank has another trace",
        "matched": "i collectives that it has in common with other ranks",
        "aligned": "b whether its clock is aligned",
        "offset_ns": "i what to subtract from its times, base time included",
        "error_ns": "i error of its clock",
        "steps": "i number of its steps",
        "step_ns": "i its average step",
    },
    "matched": {
        "job": "i number of the job, 1 where there is only one",
        "op": "s operation",
        "group": "s process group",
        "sequence": "i number in its process group",
        "step": "i profiler step",
        "position": "i number among the collectives of this operation in its step",
        "ranks": "i ranks with aligned clocks that have it",
        "judged": "b whether all its kernels ran at one moment, so that the last one is what the others wait for",
        "complete": "b whether all ranks that may take part in it have it; without them waiting is a lower bound",
        "last_rank": "i the rank that comes last, of those with a trace",
        "late_ns": "i lateness of the last rank: after the arrival of the median rank",
        "wait_ns": "i waiting of all ranks together",
        "transfer_ns": "i from the last arrival to the end; unknown where a rank has no trace",
        "error_ns": "i lateness up to this is within the error of the clocks",
    },
    "spread": {
        "job": "i number of the job, 1 where there is only one",
        "figure": "s what is compared",
        "step": "i profiler step; unknown for the average step",
        "median_ns": "i of the median rank",
        "least_ns": "i the rank with the least",
        "most_ns": "i the rank with the most",
        "least_rank": "i that rank",
        "most_rank": "i that rank",
    },
    "stragglers": {
        "job": "i number of the job, 1 where there is only one",
        "rank": "i rank",
        "source": "s its trace",
        "round": "i 1 where it is late as recorded, 2 where it is once those of round 1 are fixed, and so on",
        "late_ns": "i lateness over all its steps: after the arrival of the median rank, summed over its collectives",
        "wait_ns": "i waiting of all ranks together for it where it comes last",
        "op": "s operation at which it is latest",
        "position": "i number of that collective in its step",
        "code": "s code of the rule that explains most of it; empty where it is the time of kernels, or unknown",
        "kind": "s kind of the finding, or kernels",
        "own_ns": "i that time in its average step",
        "others_ns": "i that time in the median of the other ranks",
        "place_late_ns": "i lateness at that collective, of the median step",
        "steps": "i number of steps that late_ns is over: its own, from round 2 on those that all ranks have",
        "saving_ns": "i what the job would save over saving_steps without that difference in this rank alone, replayed",
        "with_earlier_ns": "i the same with all ranks of earlier rows fixed, too",
        "saving_steps": "i number of the steps that are replayed: those that all ranks have",
    },
}
"""The tables of the job, as in `schema`."""


def reduce_folder(folder: Path, config: FleetConfig = DEFAULT) -> tuple[Job, ...]:
    """Write the tables and the summary of the jobs whose results the folder has; mostly one.

    Raises:
        OutputError: there are no results, or the tables cannot be written.
    """
    outcome = outcomes(folder)
    (folder / SUMMARY).unlink(missing_ok=True)  # it comes last, and says that all tables are of one run
    traces = found_traces(folder, outcome)
    parts = jobs_of(traces, config, lambda number: collective_ends(folder, outcome[number]))
    ranks = [ranks_of([traces[number] for number in part.traces], part.traces) for part in parts]
    gather(folder, outcome, [each.members for each in ranks])
    jobs = tuple(
        job_of(folder, of, config, number, part) for number, (of, part) in enumerate(zip(ranks, parts, strict=True), 1)
    )
    for name, rows in {"ranks": _ranks, "matched": _matched, "spread": _spread, "stragglers": _stragglers}.items():
        _write(folder / f"{name}.parquet", name, [{"job": job.number, **row} for job in jobs for row in rows(job)])
    with writing(folder / SUMMARY) as file:
        file.write(encodable(summaries(jobs)).encode())
    return jobs


def _write(path: Path, name: str, rows: list[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with writing(path) as file:
        named = ({key: encodable(cell) if isinstance(cell, str) else cell for key, cell in row.items()} for row in rows)
        pq.write_table(pa.Table.from_pylist([*named], schema=fields(COLUMNS[name])), file, compression="zstd")


def _ranks(job: Job) -> Iterator[dict[str, Any]]:
    clocks, figures = job.clocks, job.figures
    for number, member in enumerate(job.members):
        aligned = bool(clocks.aligned[number]) and member.used
        yield {
            "trace": member.trace,
            "process": member.process,
            "rank": member.rank,
            "origin": member.origin,
            "source": member.source,
            "host": member.host,
            "node": member.node,
            "used": member.used,
            "matched": int(clocks.matched[number]),
            "aligned": aligned,
            "offset_ns": int(clocks.offset_ns[number]) if aligned else None,
            "error_ns": int(clocks.error_ns[number]) if aligned else None,
            "steps": int(figures.steps[number]),
            "step_ns": int(figures.times[STEP][number]),
        }


def _matched(job: Job) -> Iterator[dict[str, Any]]:
    arrived, rank = job.arrived, [member.rank for member in job.members]
    columns = {"late_ns": arrived.late_ns, "wait_ns": arrived.wait_ns, "transfer_ns": arrived.transfer_ns}
    for number, label in enumerate(job.labels.to_dict("records")):
        judged = bool(arrived.counts[number])
        times = {name: int(values[number]) if judged else None for name, values in columns.items()}
        complete = bool(job.absent.complete[number])
        times |= {} if complete else {"transfer_ns": None}
        yield (
            {str(name): _plain(value) for name, value in label.items()}
            | {"ranks": int(arrived.ranks[number]), "judged": judged, "complete": complete}
            | {"last_rank": rank[int(arrived.last[number])] if judged else None, **times}
            | {"error_ns": int(arrived.error_ns[number])}
        )


def _plain(value: Any) -> Any:
    import pandas as pd

    return None if pd.isna(value) else value


def _spread(job: Job) -> Iterator[dict[str, Any]]:
    used = np.flatnonzero(job.figures.steps > 0)
    for name, values in job.figures.times.items() if len(used) else ():
        yield _spread_of(job, name, None, used, values[used])
    numbered = job.steps[(job.steps["member"] >= 0) & job.steps["step"].notna()]
    for step, rows in numbered.groupby("step", sort=True):
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
        cause = late.causes[0] if late.causes else None
        yield {
            "rank": job.members[late.member].rank,
            "source": job.members[late.member].source,
            "round": late.round,
            "late_ns": late.late_ns,
            "wait_ns": late.wait_ns,
            "op": late.place.op,
            "position": late.place.position,
            "code": cause.code if cause else "",
            "kind": cause.kind if cause else "",
            "own_ns": cause.own_ns if cause else None,
            "others_ns": cause.others_ns if cause else None,
            "place_late_ns": late.place.late_ns,
            "steps": late.steps,
            "saving_ns": late.saving.alone_ns if late.saving else None,
            "with_earlier_ns": late.saving.with_earlier_ns if late.saving else None,
            "saving_steps": late.saving.steps if late.saving else None,
        }
