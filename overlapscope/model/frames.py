"""Make pandas frames of plain rows; pandas is imported when the first one is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import pandas


def frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> pandas.DataFrame:
    """A frame with one row per mapping; columns with missing values keep their type, as nullable ones.

    ``columns`` gives their order, and the columns of a frame without rows.
    """
    import pandas as pd

    return pd.DataFrame(list(rows), columns=columns if columns is None else list(columns)).convert_dtypes()


class Row:
    """A small result: a dataclass of numbers and texts that is one row of a frame.

    Fields that are themselves a dataclass or a mapping stay nested in ``to_dict`` and become columns in ``to_pandas``.
    """

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready data, in their order; those with a ``to_dict`` of their own as that says."""
        return {entry.name: _plain(getattr(self, entry.name)) for entry in fields(cast("Any", self))}

    def to_pandas(self) -> pandas.DataFrame:
        """The fields as one row; concatenate the frames of several results."""
        row: dict[str, Any] = {}
        for name, value in self.to_dict().items():
            row |= value if isinstance(value, dict) else {name: value}
        return frame([row])


def _plain(value: Any) -> Any:
    """A field's value as JSON has it: enums as their text, tuples as lists, dataclasses and mappings as objects."""
    if is_dataclass(value) and not isinstance(value, type):
        return value.to_dict() if hasattr(value, "to_dict") else _plain(asdict(value))
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, IntEnum):
        return value.name.lower()
    return [_plain(entry) for entry in value] if isinstance(value, tuple | list) else value
