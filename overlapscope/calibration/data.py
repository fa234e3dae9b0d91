"""A calibration as JSON-ready data, as NVTX marks, by which a trace of Nsight Systems carries it, and read again.

The fields of `schema` say how each value is read: one of a wrong type is not known, and a row without a value that it
needs is left out. Nothing else gets through, so that what was read may be published. A text of a mark is `MARK`, the
number of the piece, how many there are, and a piece of JSON, since tools cut long texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from overlapscope.calibration import schema
from overlapscope.calibration.schema import SCHEMA, Calibration, Gpu, OperatorTimes, PostStaging

MARK = "overlapscope.recording"
"""The begin of a mark's text."""
_PIECE_LENGTH = 500  # characters
_SCHEMA_1 = "overlapscope.recording/1"
_LARGEST = 1 << 50  # 13 days in ns, and beyond the memory of any machine
_LATEST = 1 << 62  # the year 2116 in ns
_MARK = re.compile(rf"{re.escape(MARK)} ([0-9]{{1,4}})/([0-9]{{1,4}}) (.*)", re.DOTALL)


def to_json(calibration: Calibration) -> dict[str, Any]:
    """JSON-ready data for a trace, with the key ``schema``: objects, lists, texts and whole numbers."""
    return {"schema": SCHEMA, **plain(calibration)}


def plain(value: Any) -> Any:
    """JSON-ready data of anything that a calibration has: fields by name, but for those that are None."""
    if is_dataclass(value):
        data = {each.name: plain(getattr(value, each.name)) for each in fields(value)}
        return {name: each for name, each in data.items() if each is not None}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value


def to_marks(data: Mapping[str, Any]) -> list[str]:
    """The texts of the marks that carry JSON-ready ``data``."""
    text = json.dumps(data, separators=(",", ":"))
    parts = [text[begin : begin + _PIECE_LENGTH] for begin in range(0, len(text), _PIECE_LENGTH)]
    return [f"{MARK} {number}/{len(parts)} {part}" for number, part in enumerate(parts, 1)]


def from_marks(texts: Iterable[str]) -> Any:
    """The data in the marks among ``texts``; None where there is none, or a piece of it is missing or damaged.

    Where several recordings left marks, as processes of one run do, it is the first's.
    """
    marks = [match for text in texts if (match := _MARK.fullmatch(text))]
    expected = int(marks[0][2]) if marks else 0
    parts: dict[int, str] = {}
    for match in marks:
        parts.setdefault(int(match[1]), match[3])
    if not expected or sorted(parts) != list(range(1, expected + 1)):
        return None
    try:
        return json.loads("".join(parts[number] for number in sorted(parts)))
    except (ValueError, RecursionError):
        return None


def from_json(data: Any) -> Calibration | None:
    """The calibration in the ``data`` of a trace; None where that is no calibration."""
    version = mapping(data).get("schema")
    if version not in (schema.SCHEMA, _SCHEMA_1):
        return None
    calibration: Calibration | None = _row(Calibration, _upgraded(data) if version == _SCHEMA_1 else data)
    return calibration


def published(data: Any) -> dict[str, Any] | None:
    """The understood part of the ``data`` in a trace, in this version's keys; None where it is no calibration.

    All of it is numbers but the names of GPUs, versions, directions, kinds of memory, and of DataLoaders their places
    and the classes of their batches, and places of samples, which may be any text: hide in them what is to be hidden.
    """
    calibration = from_json(data)
    return None if calibration is None else to_json(calibration)


def gpus(data: Any) -> tuple[Gpu, ...]:
    """The GPUs in a list of them; those without a number are left out."""
    return _rows(Gpu, data)


def mapping(value: Any) -> dict[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """A list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def count(value: Any) -> int | None:
    """A whole number from 0 on that can be a duration, a size or a number of things; None for anything else."""
    return value if _is_whole(value, _LARGEST) else None


def moment(value: Any) -> int | None:
    """A time in ns, or a large id; None for anything else."""
    return value if _is_whole(value, _LATEST) else None


def _is_whole(value: Any, largest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | int | float) else ""


def _texts(value: Any) -> MappingProxyType[str, str]:
    return MappingProxyType({str(name): _text(each) for name, each in mapping(value).items()})


def _counts(value: Any) -> tuple[int, ...]:
    return tuple(each for entry in listing(value) if (each := count(entry)))


def _levels(value: Any) -> tuple[int, ...]:
    return tuple(each for entry in listing(value) if (each := count(entry)) is not None)


def _cumulative(value: Any) -> tuple[int, ...] | None:
    """Cumulative times; None where there are none, or one of them is no time or no more than the one before."""
    times = tuple(count(each) or 0 for each in listing(value))
    return times if times and all(before < after for before, after in pairwise((0, *times))) else None


def _row(kind: type[Any], data: Any) -> Any:
    """A dataclass of the schema from an object; None where that is empty, or lacks a value that has no default."""
    row = mapping(data)
    values = {entry.name: _READERS[str(entry.type)](row.get(entry.name)) for entry in fields(kind)}
    needed = [entry.name for entry in fields(kind) if entry.default is entry.default_factory is MISSING]
    return kind(**values) if row and all(values[name] is not None for name in needed) else None


def _rows(kind: type[Any], data: Any) -> tuple[Any, ...]:
    return tuple(row for entry in listing(data) if (row := _row(kind, entry)) is not None)


def _post_stagings(data: Any) -> tuple[PostStaging, ...]:
    return tuple(row for row in _rows(PostStaging, data) if len(row.issue_ns) == len(row.usual_ns))


def _columns(kind: type[OperatorTimes], data: Any) -> OperatorTimes | None:
    """Columns sorted by the first; None where a part is missing: half of who reads what is worse than nothing."""
    import numpy as np

    columns = [mapping(data).get(entry.name) for entry in fields(kind)]
    if not all(isinstance(column, list) for column in columns) or len({len(listing(each)) for each in columns}) != 1:
        return None
    if any(moment(number) is None for column in columns for number in listing(column)):
        return None
    table = np.array(columns, np.int64).reshape(len(columns), -1)
    return kind(*table[:, np.argsort(table[0], kind="stable")])


def _either(kind: type[Any], data: Any) -> Any:
    return _row(kind, data) or kind()


_READERS: dict[str, Callable[[Any], Any]] = {
    "int": count,
    "int | None": count,
    "Positive": lambda value: count(value) or None,
    "str": _text,
    "str | None": lambda value: value if isinstance(value, str) else None,
    "bool | None": lambda value: value if isinstance(value, bool) else None,
    "tuple[int, ...]": _counts,
    "Cumulative": _cumulative,
    "Levels": _levels,
    "Mapping[str, str]": _texts,
    **{name: partial(_either, getattr(schema, name)) for name in ("PcieLink", "Packing")},
    **{f"{name} | None": partial(_row, getattr(schema, name)) for name in ("IssueCost", "TimedSteps", "Sampling")},
    **{f"{kind.__name__} | None": partial(_columns, kind) for kind in OperatorTimes.__subclasses__()},
    **{
        f"tuple[{name}, ...]": partial(_rows, getattr(schema, name))
        for name in ("Gpu", "CopyTime", "DuplexTime", "PackTime", "Loader", "SampledPlace")
    },
    "tuple[PostStaging, ...]": _post_stagings,
}
"""How a value is read, by the type of its field."""

_RENAMED_1 = {"both_ways": "duplex", "touches": "copy_consumers", "reads": "d2h_consumers"}
_PIECE_1 = {"gather_ns": "pack_ns", "warm_gather_ns": "warm_pack_ns"}
_STEPS_1 = {"steps": "count"}


def _upgraded(data: dict[str, Any]) -> dict[str, Any]:
    """``data`` of the first version as the second has it; what is damaged stays so."""
    issue, steps = mapping(data.get("issue")), mapping(data.get("steps"))
    return {
        **{key: data.get(key) for key in ("versions", "devices", "copies")},
        **{new: data.get(old) for old, new in _RENAMED_1.items()},
        "packing": {
            "pieces": [_renamed(piece, _PIECE_1) for piece in listing(data.get("gathers"))],
            "start_ns": data.get("gather_start_ns"),
            "view_ns": data.get("view_ns"),
        },
        "post_staging": [_listed(row) for row in listing(data.get("after_copies"))],
        "issue_unprofiled": issue.get("unprofiled"),
        "issue_profiled": issue.get("profiled"),
        "recorded": _renamed(steps.get("recorded"), _STEPS_1),
        "unprofiled": _renamed(steps.get("unprofiled"), _STEPS_1),
    }


def _listed(data: Any) -> dict[str, Any]:
    """A row with lists of times, where the first recordings have a number for one amount of work."""
    row = mapping(data)
    times = {key: row.get(key) for key in ("issue_ns", "usual_ns")}
    return row | {key: value if isinstance(value, list) else [value] for key, value in times.items()}


def _renamed(row: Any, names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in mapping(row).items()}
