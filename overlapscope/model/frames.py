"""Make pandas frames of plain rows; pandas is imported when the first one is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas


def frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> pandas.DataFrame:
    """A frame with one row per mapping; columns with missing values keep their type, as nullable ones.

    ``columns`` gives their order, and the columns of a frame without rows.
    """
    import pandas as pd

    return pd.DataFrame(list(rows), columns=columns if columns is None else list(columns)).convert_dtypes()
