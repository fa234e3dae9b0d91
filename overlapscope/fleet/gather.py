"""Join the results of all traces into one Parquet file for each table, one trace in memory at a time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from overlapscope.atomic_files import writing
from overlapscope.errors import OutputError
from overlapscope.fleet.map import Part, failed
from overlapscope.fleet.ranks import Found, Member
from overlapscope.fleet.schema import NO_GPU_WORK, ROWS, schema
from overlapscope.fleet.store import read_part
from overlapscope.fleet.task import Outcome
from overlapscope.formatting import encodable

if TYPE_CHECKING:
    import pyarrow

_GROUP_ROWS, _GROUP_TRACES = 20_000, 100
"""Most rows and traces in a row group: large enough to compress, few enough to wait in memory."""
TRACE_NAMES = ("traces", "devices", "steps")


def found_traces(folder: Path, outcomes: Sequence[Outcome]) -> list[Found]:
    """What each trace says about its ranks."""
    return [_found(outcome.source, _part(folder, outcome, TRACE_NAMES)) for outcome in outcomes]


def collective_ends(folder: Path, outcome: Outcome) -> dict[int, int]:
    """When the collectives of a trace ended, by their numbers, on its own clock."""
    table = _part(folder, outcome, ("collectives",))["collectives"]
    rows = zip(table["match"].to_pylist(), table["end_ns"].to_pylist(), strict=True)
    return {number: end_ns for number, end_ns in rows if number is not None}


def trace_rows(folder: Path, outcomes: Sequence[Outcome]) -> list[dict[Hashable, Any]]:
    """What is known of each trace before the jobs are: its row of the table, with its source."""
    rows = (_part(folder, outcome, ("traces",))["traces"].to_pylist()[0] for outcome in outcomes)
    return [{"source": outcome.source, **row} for outcome, row in zip(outcomes, rows, strict=True)]


def gather(folder: Path, outcomes: Sequence[Outcome], jobs: Sequence[Sequence[Member]]) -> None:
    """Write the tables of the map for all traces, by trace; each row with the trace's number, its job and its rank.

    Raises:
        OutputError: a table cannot be written.
    """
    ranks = {(member.trace, member.process): member.rank for members in jobs for member in members}
    alone = {member.trace: (number, member.rank) for number, members in enumerate(jobs, 1) for member in members}
    with ExitStack() as stack:
        tables = {
            name: stack.enter_context(_Writer(stack.enter_context(writing(folder / f"{name}.parquet")), name))
            for name in ("traces", *ROWS)
        }
        for number, outcome in enumerate(outcomes):
            for name, table in _part(folder, outcome).items():
                process = table.column("process").to_pylist() if "process" in table.column_names else None
                job, rank = alone[number]
                of = [rank] * len(table) if process is None else [ranks.get((number, p)) for p in process]
                source = [outcome.source] * len(table) if name == "traces" else None
                tables[name].add(_numbered(table, (number, job), of, source))


def gathered_schema(name: str) -> pyarrow.Schema:
    """The schema of a table of all traces."""
    import pyarrow as pa

    own = [
        *((name, pa.int64()) for name in ("trace", "job", "rank")),
        *([("source", pa.string())] if name == "traces" else []),
    ]
    return pa.schema([*own, *schema(name)])


class _Writer:
    """Collects rows of one table, and writes them in row groups of a good size."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file, self._schema = file, gathered_schema(name)
        self._waiting: list[pyarrow.Table] = []

    def __enter__(self) -> _Writer:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(self._file, self._schema, compression="zstd")
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._flush()
        finally:
            self._writer.close()

    def add(self, table: pyarrow.Table) -> None:
        """Add the rows of one trace."""
        self._waiting.append(table.cast(self._schema))
        if len(self._waiting) >= _GROUP_TRACES or sum(map(len, self._waiting)) >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting).combine_chunks(), row_group_size=_GROUP_ROWS)
        self._waiting = []


def _numbered(
    table: pyarrow.Table, numbers: tuple[int, int], ranks: list[int | None], source: list[str] | None
) -> pyarrow.Table:
    """A table with the numbers of its trace and job, its ranks, and where it comes from."""
    import pyarrow as pa

    columns = {"trace": [numbers[0]] * len(table), "job": [numbers[1]] * len(table), "rank": ranks}
    own: dict[str, Any] = {name: pa.array(values, pa.int64()) for name, values in columns.items()}
    own |= {} if source is None else {"source": pa.array(map(encodable, source), pa.string())}
    return pa.table(own | {name: table.column(name) for name in table.column_names})


def _part(folder: Path, outcome: Outcome, tables: Sequence[str] = ("traces", *ROWS)) -> Part:
    """The result of a trace; where there is none, a row that says why."""
    if not outcome.key:
        part = failed("", outcome.code, outcome.error)
    else:
        try:
            return read_part(folder, outcome.key, tables)
        except OutputError as error:
            part = failed("", error.code, "its result is damaged; run the fleet again")
    return {name: part[name] for name in tables}


def _found(source: str, part: Part) -> Found:
    (row,) = part["traces"].to_pylist()
    processes: dict[int | None, int | None] = {}
    for device in part["devices"].select(["process", "device"]).to_pylist():
        processes.setdefault(device["process"], device["device"])
    start = None if row["start_ns"] is None else row["start_ns"] + (row["base_time_ns"] or 0)
    return Found(
        source,
        row["status"] not in ("failed", NO_GPU_WORK),
        row["recorded_rank"],
        row["world_size"],
        row["gpus"],
        tuple(processes.items()),
        row["content"],
        start,
        None if start is None else start + row["wall_ns"],
        frozenset(map(int, row["collectives"].split())),
        row["status"] == "complete",
        len(set(part["steps"]["step"].to_pylist())),
        row["events"] or 0,
    )
