"""The tables of all traces: written one trace at a time, and read whole, by columns or by rows.

There may be millions of rows of collectives; columns and rows of these are read piece by piece, in a fraction of the
memory of a frame.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from overlapscope.atomic_files import writing
from overlapscope.errors import OutputError
from overlapscope.fleet.ranks import Member, TraceInfo
from overlapscope.fleet.rows import Part, failed
from overlapscope.fleet.schema import MAPPED, NO_GPU_WORK, schema
from overlapscope.fleet.store import Outcome, read_part
from overlapscope.formatting import encodable
from overlapscope.model.columns import Bool, Int64

_GROUP_ROWS, _GROUP_TRACES = 20_000, 100
"""Most rows and traces in a row group: large enough to compress, few enough to wait in memory."""


def trace_infos(folder: Path, outcomes: Sequence[Outcome]) -> list[TraceInfo]:
    """What each trace says about its ranks."""
    return [_info(outcome.source, _part(folder, outcome, ("traces", "devices", "steps"))) for outcome in outcomes]


def collective_ends(folder: Path, outcome: Outcome) -> dict[int, int]:
    """When the collectives of a trace ended, by their numbers, on its own clock."""
    table = _part(folder, outcome, ("collectives",))["collectives"]
    rows = zip(table["match"].to_pylist(), table["end_ns"].to_pylist(), strict=True)
    return {number: end_ns for number, end_ns in rows if number is not None}


def trace_rows(folder: Path, outcomes: Sequence[Outcome]) -> list[dict[Hashable, Any]]:
    """The row of each trace in the table, with its source, before jobs are known."""
    rows = (_part(folder, outcome, ("traces",))["traces"].to_pylist()[0] for outcome in outcomes)
    return [{"source": outcome.source, **row} for outcome, row in zip(outcomes, rows, strict=True)]


def _info(source: str, part: Part) -> TraceInfo:
    (row,) = part["traces"].to_pylist()
    processes: dict[int | None, int | None] = {}
    for device in part["devices"].select(["process", "device"]).to_pylist():
        processes.setdefault(device["process"], device["device"])
    start = None if row["start_ns"] is None else row["start_ns"] + (row["base_time_ns"] or 0)
    return TraceInfo(
        source,
        usable=row["status"] not in ("failed", NO_GPU_WORK),
        recorded_rank=row["recorded_rank"],
        world_size=row["world_size"],
        gpus=row["gpus"],
        processes=tuple(processes.items()),
        content=row["content"],
        start_ns=start,
        end_ns=None if start is None else start + row["wall_ns"],
        collectives=frozenset(map(int, row["collectives"].split())),
        whole=row["status"] == "complete",
        steps=len(set(part["steps"]["step"].to_pylist())),
        events=row["events"] or 0,
    )


def _part(folder: Path, outcome: Outcome, tables: Sequence[str] = tuple(MAPPED)) -> Part:
    """The result of a trace; where there is none, a row that says why."""
    if not outcome.key:
        part = failed("", outcome.code, outcome.error)
    else:
        try:
            return read_part(folder, outcome.key, tables)
        except OutputError as error:
            part = failed("", error.code, "its result is damaged; run the fleet again")
    return {name: part[name] for name in tables}


def gather(folder: Path, outcomes: Sequence[Outcome], jobs: Sequence[Sequence[Member]]) -> None:
    """Write the tables of the map for all traces, by trace; each row with the trace's number, its job and its rank.

    Raises:
        OutputError: a table cannot be written.
    """
    ranks = {(member.trace, member.process): member.rank for members in jobs for member in members}
    jobs_of_traces = {member.trace: (job, member.rank) for job, members in enumerate(jobs, 1) for member in members}
    with ExitStack() as stack:
        add = {name: stack.enter_context(_writer(folder / f"{name}.parquet", name)) for name in MAPPED}
        for trace, outcome in enumerate(outcomes):
            job, rank = jobs_of_traces[trace]
            for name, table in _part(folder, outcome).items():
                rank_of_rows = [rank] * len(table)
                if "process" in table.column_names:
                    rank_of_rows = [ranks.get((trace, process)) for process in table["process"].to_pylist()]
                numbers = {"trace": [trace] * len(table), "job": [job] * len(table), "rank": rank_of_rows}
                columns: dict[str, Any] = {key: pa.array(values, pa.int64()) for key, values in numbers.items()}
                columns |= {"source": pa.array([encodable(outcome.source)])} if name == "traces" else {}
                add[name](pa.table(columns | {key: table[key] for key in table.column_names}))


@contextmanager
def _writer(path: Path, name: str) -> Iterator[Callable[[pa.Table], None]]:
    """A function that adds the rows of a trace to a table, which is written in row groups of a good size."""
    numbers = [(key, pa.int64()) for key in ("trace", "job", "rank")]
    source = [("source", pa.string())] if name == "traces" else []
    waiting: list[pa.Table] = []

    def flush() -> None:
        if waiting:
            writer.write_table(pa.concat_tables(waiting).combine_chunks(), row_group_size=_GROUP_ROWS)
        waiting.clear()

    def add(table: pa.Table) -> None:
        waiting.append(table)
        if len(waiting) >= _GROUP_TRACES or sum(map(len, waiting)) >= _GROUP_ROWS:
            flush()

    columns = pa.schema([*numbers, *source, *schema(name)])
    with writing(path) as file, pq.ParquetWriter(file, columns, compression="zstd") as writer:
        yield add
        flush()


def read(folder: Path, table: str, columns: list[str] | None = None, filters: Any = None) -> pd.DataFrame:
    """A table of all traces, or some of its columns and rows; integers that may be unknown are nullable."""
    return frame_of(pq.read_table(folder / f"{table}.parquet", columns=columns, filters=filters))


def integers(folder: Path, table: str, column: str) -> tuple[Int64, Bool]:
    """A column of integers, 0 where one is not known, and the flags of known ones."""
    rows, begin = pq.read_metadata(folder / f"{table}.parquet").num_rows, 0
    values, known = np.empty(rows, np.int64), np.empty(rows, np.bool_)
    for batch in _batches(folder, table, [column]):
        here = slice(begin, begin + len(batch))
        values[here] = batch.column(0).fill_null(0).to_numpy()
        known[here] = batch.column(0).is_valid().to_numpy(zero_copy_only=False)
        begin += len(batch)
    return values, known


def rows_of(folder: Path, table: str, columns: Sequence[str], rows: Int64) -> pd.DataFrame:
    """The rows of these numbers, in this order, with some columns; integers that may be unknown are nullable."""
    order = np.argsort(rows, kind="stable")
    wanted, begin, taken = rows[order], 0, []
    for batch in _batches(folder, table, columns):
        first, last = np.searchsorted(wanted, (begin, begin + len(batch)))
        taken.append(batch.take(pa.array(wanted[first:last] - begin)))
        begin += len(batch)
    fields = pq.read_schema(folder / f"{table}.parquet")
    whole = pa.Table.from_batches(taken, pa.schema([fields.field(name) for name in columns]))
    return frame_of(whole.take(pa.array(np.argsort(order))))


def _batches(folder: Path, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:

    with pq.ParquetFile(folder / f"{table}.parquet") as file:
        yield from file.iter_batches(columns=list(columns), use_threads=False)


def frame_of(table: pa.Table) -> pd.DataFrame:
    """A table as a frame; integers that may be unknown are nullable."""
    frame: pd.DataFrame = table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return frame


def with_member(frame: pd.DataFrame, members: Sequence[Member]) -> pd.DataFrame:
    """A table with a column ``member``: the number of the member of each row, -1 for a trace that is not used."""
    process, known = frame["process"].fillna(0).to_numpy(np.int64), frame["process"].notna().to_numpy(np.bool_)
    return frame.assign(member=members_of(frame["trace"].to_numpy(np.int64), process, known, members))


def members_of(trace: Int64, process: Int64, known: Bool, members: Sequence[Member]) -> Int64:
    """The number of the member of each row, by its trace and its process where this is known; -1 for one not used."""
    numbers = {(member.trace, member.process): number for number, member in enumerate(members) if member.used}
    changes = (trace[1:] != trace[:-1]) | (process[1:] != process[:-1]) | (known[1:] != known[:-1])
    first = np.flatnonzero(np.append(len(trace) > 0, changes))  # of the rows of one process
    of_first = [numbers.get((int(trace[row]), int(process[row]) if known[row] else None), -1) for row in first.tolist()]
    return np.repeat(np.array(of_first, np.int64), np.diff(np.append(first, len(trace))))


def with_base(folder: Path, frame: pd.DataFrame) -> pd.DataFrame:
    """The table with Unix times, where a trace says which time its clock begins at."""
    base = read(folder, "traces", ["trace", "base_time_ns"]).set_index("trace")["base_time_ns"].fillna(0)
    shift = base.reindex(frame["trace"]).to_numpy(np.int64)
    return frame.assign(start_ns=frame["start_ns"] + shift, end_ns=frame["end_ns"] + shift)
