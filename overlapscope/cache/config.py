"""What the cache keeps, with the reasons."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CacheConfig:
    """Which traces are kept, and how much of them together.

    ``most_bytes``: of all entries; beyond it those go first that were used longest ago. An entry has a tenth of the
        bytes of its JSON, so that this is room for some 50 GB of traces.
    ``least_read_s``: a trace that was read faster is not kept; reading it again is no wait.
    ``settled_ns``: a file that changed this short a time before its content was read is not known by its time of
        change, since another change may have the same: file systems round times up to two seconds.
    ``abandoned_s``: what a writer left unfinished for so long is of one that was killed.
    """

    most_bytes: int = 5_000_000_000
    least_read_s: float = 0.5
    settled_ns: int = 2_000_000_000
    abandoned_s: float = 3600


DEFAULT = CacheConfig()
