"""Where the cache lies: the user's cache folder of each system, or the one in OVERLAPSCOPE_CACHE."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "OVERLAPSCOPE_CACHE"
_OFF = ("off", "0", "")


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of the cache; None where OVERLAPSCOPE_CACHE is ``off``, or nobody has a home."""
    chosen = environment.get(VARIABLE)
    if chosen is not None:
        return None if chosen.lower() in _OFF else Path(chosen)
    try:
        return _of_user(environment) / "overlapscope"
    except RuntimeError:  # no home folder
        return None


def _of_user(environment: Mapping[str, str]) -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    own = environment.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", "")
    return Path(own) if Path(own).is_absolute() else Path.home() / ".cache"
