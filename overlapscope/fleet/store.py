"""The folder of a fleet: the result of each trace, and which traces each run had.

    parts/KEY.parquet        the rows of one trace: a single row, with a list for each table
    runs/1-of-1.jsonl        the outcome of each trace of a run, or of one of its shards
    *.parquet, summary.txt   what the reduce makes of them

A part is written once and whole, under a key made of the trace's content and of the code that made it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from overlapscope.atomic_files import output_errors, writing
from overlapscope.cache.store import code_version
from overlapscope.errors import OutputError
from overlapscope.fleet.rows import Part
from overlapscope.fleet.schema import MAPPED, schema
from overlapscope.formatting import encodable

_KEY_DIGITS = 40
_SMALL = {"use_dictionary": False, "write_statistics": False, "store_schema": False}
"""For a hundred columns with a few values each: half of the bytes, and read in half of the time."""
MAPPERS = (
    *("analysis", "calibration", "dependencies", "diagnosis", "fitness", "fleet", "formatting", "hardware", "measure"),
    *("model", "ordering", "read", "report", "whatif"),
)
"""What makes results: their figures, and the sentences of findings in them."""
_KEY = re.compile(rf"^[0-9a-f]{{{_KEY_DIGITS}}}-[\w-]+$")
_RECORD = re.compile(r"^(\d+)-of-(\d+)\.jsonl$")


Shard = tuple[int, int]
"""Which part of how many, counted from 1: every so many-th trace of a sorted list."""


@dataclass(frozen=True)
class Outcome:
    """What became of a trace: the key of its result, or why there is none.

    ``kept`` says that the result was there already. ``code`` and ``error`` are empty where all went well; a trace that
    cannot be used has a result all the same, which says so.
    """

    source: str
    key: str = ""
    size_bytes: int = 0
    modified_ns: int = 0
    kept: bool = False
    code: str = ""
    error: str = ""


def key_of(content: str) -> str:
    """The key of a trace's result: its content, and the version of the code that made it."""
    return f"{content[:_KEY_DIGITS]}-{code_version(*MAPPERS)}"


def is_current(key: str) -> bool:
    """Whether this version made the result under this key."""
    return key.endswith(f"-{code_version(*MAPPERS)}")


def part_path(folder: Path, key: str) -> Path:
    """Where the result of a trace lies."""
    return folder / "parts" / f"{key}.parquet"


def has_part(folder: Path, key: str) -> bool:
    """Whether there is a whole result under this key."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return bool(pq.read_metadata(part_path(folder, key)).num_rows == 1)
    except (OSError, pa.ArrowException):
        return False


def write_part(folder: Path, key: str, part: Part) -> None:
    """Keep the result of a trace.

    Raises:
        OutputError: it cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: _one_list(table) for name, table in part.items()}
    with writing(part_path(folder, key)) as file:
        pq.write_table(pa.table(columns), file, compression="zstd", **_SMALL)


def read_part(folder: Path, key: str, tables: Iterable[str] = tuple(MAPPED)) -> Part:
    """The tables of one result.

    Raises:
        OutputError: there is no whole result under this key.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        row = pq.ParquetFile(part_path(folder, key)).read(columns=list(tables), use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise OutputError(f"{part_path(folder, key)}: is not a whole result; run the fleet again") from error
    flat = {name: row.column(name).combine_chunks().flatten() for name in tables}
    return {name: pa.Table.from_struct_array(values).cast(schema(name)) for name, values in flat.items()}


def _one_list(table: Any) -> Any:
    import pyarrow as pa

    values = pa.concat_arrays(table.to_struct_array().chunks) if len(table) else pa.array([], pa.struct(table.schema))
    return pa.ListArray.from_arrays(pa.array([0, len(table)], pa.int32()), values)


def prepare(folder: Path, shard: Shard) -> dict[str, Outcome]:
    """Make a folder ready for the run of a shard: the outcomes of earlier runs, by source.

    Raises:
        OutputError: the folder cannot be written, or cannot have the tables.
    """
    absolute = str(folder.absolute())
    if encodable(absolute) != absolute:
        raise OutputError(f"{folder}: cannot have the tables of a fleet: its name is no UTF-8")
    with output_errors(folder / "runs"):
        for name in ("runs", "parts"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        known = dict[str, Outcome]()
        for path, recorded in _records(folder):
            known |= _read(path)[1]
            if recorded[1] != shard[1]:
                path.unlink(missing_ok=True)  # its traces belong to other shards now
    return known


@contextmanager
def recording(folder: Path, shard: Shard, planned: int) -> Iterator[Callable[[Outcome], None]]:
    """A function that records each outcome of a shard's run at once; ``planned`` traces are expected.

    Raises:
        OutputError: one cannot be written.
    """
    path = folder / "runs" / f"{shard[0]}-of-{shard[1]}.jsonl"
    with output_errors(path):
        file = path.open("w")

    def add(entry: dict[str, Any]) -> None:
        with output_errors(path):
            file.write(json.dumps(entry) + "\n")
            file.flush()

    with file:
        add({"planned": planned})
        yield lambda outcome: add(asdict(outcome))


def outcomes(folder: Path) -> list[Outcome]:
    """The outcomes of all shards, sorted by source.

    Raises:
        OutputError: there is no run, or it or one of its shards has not ended.
    """
    records = _records(folder)
    if not records:
        raise OutputError(f"{folder}: has no results; run `overlapscope fleet TRACES -o {folder}` first")
    of = max(total for _, (_, total) in records)
    paths = {number: path for path, (number, total) in records if total == of}
    missing = [str(number) for number in range(1, of + 1) if number not in paths]
    if missing:
        raise OutputError(f"{folder}: shard {', '.join(missing)} of {of} has not run yet")
    results = dict[str, Outcome]()
    for path in paths.values():
        planned, recorded = _read(path)
        if len(recorded) != planned:
            ended = "is damaged" if planned is None else f"the run ended after {len(recorded)} of {planned} traces"
            raise OutputError(f"{path}: {ended}; run it again: it goes on where it stopped")
        results |= recorded
    return [results[source] for source in sorted(results)]


def remove_outdated(folder: Path) -> None:
    """Remove results that no run refers to and that another version made, so that none can use them.

    Raises:
        OutputError: one cannot be removed.
    """
    parts = (folder / "parts").glob("*.parquet")
    outdated = [path for path in parts if _KEY.match(path.stem) and not is_current(path.stem)]
    records = _records(folder) if outdated else []
    wanted = {outcome.key for path, _ in records for outcome in _read(path)[1].values()}
    for path in outdated:
        if path.stem not in wanted:  # the record of another shard may still have it
            with output_errors(path):
                path.unlink(missing_ok=True)


def _records(folder: Path) -> list[tuple[Path, Shard]]:
    matches = [(path, _RECORD.match(path.name)) for path in sorted((folder / "runs").glob("*.jsonl"))]
    return [(path, (int(match[1]), int(match[2]))) for path, match in matches if match]


def _read(path: Path) -> tuple[int | None, dict[str, Outcome]]:
    """The number of traces that a record expects, None where it does not say, and its outcomes by source.

    A line that a killed run left half written, or that is damaged, is none.
    """
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError as error:
        raise OutputError(f"{path}: cannot be read ({error.strerror or error})") from error
    planned, recorded = None, dict[str, Outcome]()
    types = {entry.name: type(entry.default) for entry in fields(Outcome)} | {"source": str}
    for line in lines:
        with suppress(ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            entry = json.loads(line)
            if "planned" in entry:
                planned = int(entry["planned"])
            elif {name: type(value) for name, value in entry.items()} == types:
                recorded[entry["source"]] = Outcome(**entry)
    return planned, recorded
