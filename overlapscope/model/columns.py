"""Base classes of everything that has columns: `Columnar` for dataclasses of arrays, `Table` for declared columns.

A table is a frozen dataclass whose array fields are made with `column`. The checks, the Arrow and pandas conversions
and the column reference of the docs all use that declaration.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from overlapscope.model.enums import Labelled

if TYPE_CHECKING:
    import pandas
    import pyarrow

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Int8 = npt.NDArray[np.int8]
Bool = npt.NDArray[np.bool_]
Float64 = npt.NDArray[np.float64]

NO_TIME = np.iinfo(np.int64).min
"""The value of a time or duration column where the time is not recorded; never a possible time."""
NO_ID = -1
"""The value of an id, row or size column where the value is not recorded."""


def known(value: Any) -> int | None:
    """A number from an id, row or size column, or None where it is not recorded."""
    return None if int(value) == NO_ID else int(value)


_DTYPES = {"Int64": np.int64, "Int32": np.int32, "Int8": np.int8, "Bool": np.bool_, "Float64": np.float64}
"""The dtype of a field by its annotation, for columns without rows."""


@dataclass(frozen=True, eq=False)
class Columnar:
    """Base class of frozen dataclasses whose arrays have one length: row i of every array is about the same thing.

    Fields that are no arrays hold for all rows.
    """

    def __len__(self) -> int:
        return next((len(values) for values in vars(self).values() if isinstance(values, np.ndarray)), 0)

    def take(self, rows: Int64 | Bool | slice) -> Self:
        """The given rows. Row numbers in its columns still refer to the rows of whole tables."""
        return replace(self, **{name: values[rows] for name, values in self.arrays().items()})

    @classmethod
    def none(cls) -> Self:
        """No rows, for classes with no fields but arrays."""
        return cls(*(np.empty(0, _DTYPES[str(entry.type)]) for entry in fields(cls)))

    @classmethod
    def concat(cls, *parts: Self) -> Self:
        """The rows of all parts, one part after the other; what is no array is as in the first part."""
        filled = [part for part in parts if len(part)]
        if len(filled) == 1:
            return filled[0]
        columns = [part.arrays() for part in parts]
        return replace(parts[0], **{name: np.concatenate([each[name] for each in columns]) for name in columns[0]})

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by the names of their fields."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


@dataclass(frozen=True, slots=True)
class Column:
    """The declaration of one column of a table."""

    name: str
    dtype: np.dtype[Any]
    unit: str
    meaning: str
    null: int | None = None
    enum: type[Labelled] | None = None
    text: bool = False


def column(
    dtype: str,
    meaning: str,
    *,
    unit: str = "",
    null: int | None = None,
    enum: type[Labelled] | None = None,
    text: bool = False,
) -> Any:
    """Declare an array field of a table.

    Args:
        dtype: numpy dtype of the stored array.
        meaning: one line for the column reference.
        unit: ``ns``, ``bytes`` and the like; empty for plain numbers and ids.
        null: the stored value that means "not recorded".
        enum: the enum of the column's values.
        text: whether the values are indices into the trace's `Names`.
    """
    spec = {"dtype": np.dtype(dtype), "unit": unit, "meaning": meaning, "null": null, "enum": enum, "text": text}
    return field(metadata=spec)


@dataclass(frozen=True, eq=False)
class Names:
    """The strings of a trace, each once; text columns are indices into it."""

    values: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> str:
        """The string at ``index``; a negative index is a missing string and gives ``""``."""
        return self.values[index] if index >= 0 else ""

    def decode(self, ids: Int32) -> list[str]:
        """The strings of ``ids``, in their order."""
        return [self[index] for index in ids.tolist()]

    def find(self, *texts: str) -> list[int]:
        """The indices of all ``texts`` that occur."""
        wanted = set(texts)
        return [index for index, value in enumerate(self.values) if value in wanted]


@dataclass(frozen=True, eq=False, kw_only=True)
class Table(Columnar):
    """Base class of all tables: read-only numpy arrays of equal length, one per declared column."""

    names: Names

    def __post_init__(self) -> None:
        """Check dtypes and lengths against the declaration and make the arrays read-only."""
        lengths = set()
        for spec in self.columns():
            values = getattr(self, spec.name)
            if values.dtype != spec.dtype or values.ndim != 1:
                raise TypeError(f"{type(self).__name__}.{spec.name}: {values.dtype} where {spec.dtype} is declared")
            lengths.add(len(values))
            values.flags.writeable = False
        if len(lengths) > 1:
            raise ValueError(f"{type(self).__name__}: columns of different lengths {sorted(lengths)}")

    @classmethod
    def columns(cls) -> tuple[Column, ...]:
        """The declared columns, in order."""
        return tuple(Column(entry.name, **entry.metadata) for entry in fields(cls) if "dtype" in entry.metadata)

    @classmethod
    def build(cls, names: Names, rows: int, arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Make a table from ``arrays`` by column name; columns that are left out are filled with "not recorded".

        Raises:
            KeyError: a column is left out that has no value for "not recorded".
        """
        filled = {}
        for spec in cls.columns():
            if spec.name in arrays:
                filled[spec.name] = _narrowed(np.asarray(arrays[spec.name]), spec)
            elif spec.null is not None or spec.enum is not None:
                filled[spec.name] = np.full(rows, spec.null if spec.null is not None else 0, spec.dtype)
            else:
                raise KeyError(f"{cls.__name__}.{spec.name} has no value for 'not recorded'")
        return cls(names=names, **filled)

    @classmethod
    def empty(cls, names: Names) -> Self:
        """A table without rows."""
        return cls.build(names, 0, {spec.name: np.empty(0, spec.dtype) for spec in cls.columns()})

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)} rows>"

    def to_dict(self) -> dict[str, list[Any]]:
        """The table as JSON-ready columns: labels for enums and text, None for values that are not recorded."""
        result = {}
        for spec in self.columns():
            codes, labels = self._labels(spec)
            values = getattr(self, spec.name).tolist() if labels is None else [labels[code] for code in codes.tolist()]
            missing = self._missing(spec)
            if missing is not None:
                values = [None if unknown else value for value, unknown in zip(values, missing.tolist(), strict=True)]
            result[public_name(spec)] = [None if value != value else value for value in values]  # noqa: PLR0124 - NaN
        return result

    def to_arrow(self) -> pyarrow.Table:
        """The table as Arrow: text and enums as dictionaries, unknown values as nulls, units as field metadata."""
        import pyarrow as pa

        arrays, schema = [], []
        for spec in self.columns():
            codes, labels = self._labels(spec)
            missing = self._missing(spec)
            if labels is None:
                array: Any = pa.array(getattr(self, spec.name), mask=missing)
            else:
                array = pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing), pa.array(labels, pa.string()))
            arrays.append(array)
            notes = {"unit": spec.unit, "meaning": spec.meaning}
            schema.append(pa.field(public_name(spec), array.type, metadata=notes))
        return pa.Table.from_arrays(arrays, schema=pa.schema(schema))

    def to_pandas(self) -> pandas.DataFrame:
        """The table as pandas: text and enums as categories, columns with unknown values as nullable integers."""
        import pandas as pd

        series: dict[str, Any] = {}
        for spec in self.columns():
            codes, labels = self._labels(spec)
            missing = self._missing(spec)
            if labels is not None:
                shown = codes if missing is None else np.where(missing, -1, codes)
                series[public_name(spec)] = pd.Categorical.from_codes(shown, categories=pd.Index(labels))
            elif missing is not None:
                series[public_name(spec)] = pd.arrays.IntegerArray(getattr(self, spec.name).copy(), missing)
            else:
                series[public_name(spec)] = getattr(self, spec.name)
        return pd.DataFrame(series)

    def _missing(self, spec: Column) -> Bool | None:
        """Which values of the column are not recorded; None when all are."""
        if spec.null is None:
            return None
        mask: Bool = getattr(self, spec.name) == spec.null
        return mask if mask.any() else None

    def _labels(self, spec: Column) -> tuple[Int32, list[str] | None]:
        """Codes into a list of labels for text and enum columns; (empty, None) for numbers."""
        values = getattr(self, spec.name)
        if not spec.text and spec.enum is None:
            return np.empty(0, np.int32), None
        used, codes = np.unique(values, return_inverse=True)
        labels = [spec.enum(value).label for value in used.tolist()] if spec.enum else self.names.decode(used)
        return codes.astype(np.int32), labels


def stacked(tables: Iterable[Table], *names: str) -> list[npt.NDArray[Any]]:
    """Columns that several tables have: for each name the values of all tables, one table after the other."""
    tables = list(tables)
    return [np.concatenate([getattr(table, name) for table in tables]) for name in names]


def _narrowed(values: npt.NDArray[Any], spec: Column) -> npt.NDArray[Any]:
    """The values in the declared dtype; values outside its range become "not recorded"."""
    if values.dtype.kind == "i" and spec.dtype.kind == "i" and values.dtype.itemsize > spec.dtype.itemsize:
        limits = np.iinfo(spec.dtype)
        beyond = (values < limits.min) | (values > limits.max)
        if beyond.any():
            values = np.where(beyond, 0 if spec.null is None else spec.null, values)
    return values.astype(spec.dtype, copy=False)


def public_name(spec: Column) -> str:
    """The name of a column in frames, Arrow tables and dictionaries."""
    return spec.name.removesuffix("_id") if spec.text else spec.name
