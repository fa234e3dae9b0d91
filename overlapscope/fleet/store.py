"""The folder of a fleet: the result of each trace, and which traces each run had.

    parts/KEY.parquet        the rows of one trace: a single row, with a list for each table
    runs/1-of-1.jsonl        the outcome of each trace of a run, or of one of its shards
    *.parquet, summary.json  what the reduce makes of them

A part is written once and whole, under a key made of the trace's content and of the code that made it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from overlapscope.atomic_files import writing
from overlapscope.cache.keys import code_version
from overlapscope.errors import OutputError, OverlapscopeError
from overlapscope.fleet.map import Part
from overlapscope.fleet.schema import COLUMNS, schema
from overlapscope.fleet.sources import Source
from overlapscope.fleet.task import Outcome
from overlapscope.formatting import encodable

_KEY_DIGITS = 40
_SMALL = {"use_dictionary": False, "write_statistics": False, "store_schema": False}
"""For a hundred columns with a few values each: half of the bytes, and read in half of the time."""
_MAPPERS = (
    *("calibration", "dependencies", "diagnosis", "fitness", "fleet", "formatting", "hardware", "measure", "model"),
    *("ordering", "read", "report", "whatif"),
)
"""What makes results: their figures, and the sentences of findings in them."""
_KEY = re.compile(rf"^[0-9a-f]{{{_KEY_DIGITS}}}-[\w-]+$")
_SHARD = re.compile(r"^(\d+)-of-(\d+)\.jsonl$")


@dataclass(frozen=True)
class Shard:
    """Part ``number`` of ``of``, counted from 1: every so many-th trace of a sorted list."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``3/8``.

        Raises:
            ValueError: it is no such pair.
        """
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        if not found or not 1 <= int(found[1]) <= int(found[2]):
            raise ValueError(f"{text!r} is no shard: give its number and how many there are, such as 1/8 for the first")
        return cls(int(found[1]), int(found[2]))

    def share(self, sources: Sequence[Source]) -> Sequence[Source]:
        """The traces that belong to it."""
        return sources[self.number - 1 :: self.of]


def key_of(content: str) -> str:
    """The key of a trace's result: its content, and the version of the code that made it."""
    return f"{content[:_KEY_DIGITS]}-{code_version(*_MAPPERS)}"


def is_current(key: str) -> bool:
    """Whether this version made the result under this key."""
    return key.endswith(f"-{code_version(*_MAPPERS)}")


def remove_outdated(folder: Path) -> None:
    """Remove results that no run refers to and that another version made, so that none can use them.

    Raises:
        OutputError: one cannot be removed.
    """
    found = [path for path in (folder / "parts").glob("*.parquet") if _KEY.match(path.stem)]
    if not (old := [path for path in found if not is_current(path.stem)]):
        return
    wanted = {outcome.key for path, _ in _runs(folder) for outcome in _lines(path)}
    for path in old:
        if path.stem not in wanted:  # the record of another shard may still have it
            with _output(path):
                path.unlink(missing_ok=True)


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
    path = part_path(folder, key)
    with _output(path), writing(path) as file:
        pq.write_table(pa.table(columns), file, compression="zstd", **_SMALL)


def read_part(folder: Path, key: str, tables: Iterable[str] = tuple(COLUMNS)) -> Part:
    """The tables of one result.

    Raises:
        OutputError: there is no whole result under this key.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(tables)
    try:
        row = pq.ParquetFile(part_path(folder, key)).read(columns=names, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise OutputError(f"{part_path(folder, key)}: is not a whole result; run the fleet again") from error
    flat = {name: row.column(name).combine_chunks().flatten() for name in names}
    return {name: pa.Table.from_struct_array(values).cast(schema(name)) for name, values in flat.items()}


def _one_list(table: Any) -> Any:
    import pyarrow as pa

    values = pa.concat_arrays(table.to_struct_array().chunks) if len(table) else pa.array([], pa.struct(table.schema))
    return pa.ListArray.from_arrays(pa.array([0, len(table)], pa.int32()), values)


class Run:
    """The record of one run, or of one of its shards: each outcome is a line, written when it is known."""

    def __init__(self, folder: Path, shard: Shard) -> None:
        self._path = folder / "runs" / f"{shard.number}-of-{shard.of}.jsonl"
        absolute = str(folder.absolute())
        if encodable(absolute) != absolute:
            raise OutputError(f"{folder}: cannot have the tables of a fleet: its name is no UTF-8")
        with _output(self._path):
            for name in ("runs", "parts"):
                (folder / name).mkdir(parents=True, exist_ok=True)
            self._known = {outcome.source: outcome for path, _ in _runs(folder) for outcome in _lines(path)}
            for path, of in _runs(folder):
                if of.of != shard.of:
                    path.unlink(missing_ok=True)  # its traces belong to other shards now

    def known(self, source: str) -> Outcome | None:
        """What an earlier run found out about a trace, where it has a result."""
        outcome = self._known.get(source)
        return replace(outcome, kept=True) if outcome is not None and outcome.key else None

    @contextmanager
    def recording(self, planned: int) -> Iterator[Recorder]:
        """Record the outcomes of so many traces in place of the earlier ones; they are sorted when it ends."""
        recorder = Recorder(self._path, planned)
        try:
            yield recorder
        finally:
            recorder.close()


class Recorder:
    """Writes outcomes as they come."""

    def __init__(self, path: Path, planned: int) -> None:
        self._path, self._head, self._outcomes = path, json.dumps({"planned": planned}) + "\n", list[Outcome]()
        with _output(path):
            self._file = path.open("w")
            self._file.write(self._head)

    def add(self, outcome: Outcome) -> None:
        """Record one outcome.

        Raises:
            OutputError: it cannot be written.
        """
        self._outcomes.append(outcome)
        with _output(self._path):
            self._file.write(_line(outcome))
            self._file.flush()

    def close(self) -> None:
        """Sort what was recorded."""
        with suppress(OSError):
            self._file.close()
        with writing(self._path) as file:
            lines = map(_line, sorted(self._outcomes, key=lambda outcome: outcome.source))
            file.write((self._head + "".join(lines)).encode())


def outcomes(folder: Path) -> list[Outcome]:
    """The outcomes of all shards, sorted by source.

    Raises:
        OutputError: there is no run, or it or one of its shards has not ended.
    """
    runs = _runs(folder)
    if not runs:
        raise OutputError(f"{folder}: has no results; run `overlapscope fleet TRACES -o {folder}` first")
    of = max(shard.of for _, shard in runs)
    missing = sorted(set(range(1, of + 1)) - {shard.number for _, shard in runs if shard.of == of})
    if missing:
        raise OutputError(f"{folder}: shard {', '.join(map(str, missing))} of {of} has not run yet")
    found: dict[str, Outcome] = {}
    for path, shard in runs:
        if shard.of == of:
            found |= _whole(path)
    return [found[source] for source in sorted(found)]


def _whole(path: Path) -> dict[str, Outcome]:
    """The outcomes of one record by source, where it has all of them."""
    found, planned = {outcome.source: outcome for outcome in _lines(path)}, _planned(path)
    if len(found) != planned:
        ended = "is damaged" if planned is None else f"the run ended after {len(found)} of {planned} traces"
        raise OutputError(f"{path}: {ended}; run it again: it goes on where it stopped")
    return found


def _planned(path: Path) -> int | None:
    """Of how many traces a record is; None where it does not say."""
    with suppress(ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError):
        return int(json.loads(_text(path).splitlines()[0])["planned"])
    return None


def _runs(folder: Path) -> list[tuple[Path, Shard]]:
    found = [(path, _SHARD.match(path.name)) for path in sorted((folder / "runs").glob("*.jsonl"))]
    return [(path, Shard(int(match[1]), int(match[2]))) for path, match in found if match]


def _lines(path: Path) -> Iterator[Outcome]:
    """The outcomes of a record; a line that a killed run left half written, or that is damaged, is none."""
    kinds = {entry.name: type(entry.default) for entry in fields(Outcome)} | {"source": str}
    for line in _text(path).splitlines():
        with suppress(ValueError, TypeError, RecursionError):
            outcome = Outcome(**json.loads(line))
            if all(type(getattr(outcome, name)) is kind for name, kind in kinds.items()):
                yield outcome


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError as error:
        raise OutputError(f"{path}: cannot be read ({error.strerror or error})") from error


def _line(outcome: Outcome) -> str:
    return json.dumps(asdict(outcome)) + "\n"


@contextmanager
def _output(path: Path) -> Iterator[None]:
    try:
        yield
    except OverlapscopeError:
        raise
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error
