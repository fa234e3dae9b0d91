"""What profilers say about records that they dropped, in the messages that they leave in a file.

Nsight Systems: the diagnostics of a report. Kineto: the warnings of its log, which torch writes after the events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from overlapscope.read.log import HealthLog

CODE = "records-dropped"
LEVELS = ("WARNING", "ERROR")
"""The top-level keys of the lists of Kineto's messages."""
_SURE = re.compile(r"Exceeded max GPU buffer count|Dropped \d+ activity records|collection was stopped early")
_PERHAPS = re.compile(r"CU(?:DA|PTI) events might (?:be missing|have been collected)")


def note_dropped(log: HealthLog, messages: Iterable[Any]) -> None:
    """Log what some messages say of dropped records; what is no text is left out."""
    texts = [text for text in messages if isinstance(text, str)]
    sure = sum(_SURE.search(text) is not None for text in texts)
    perhaps = sum(_PERHAPS.search(text) is not None for text in texts)
    log.damage(CODE, sure, "messages of the profiler that it dropped records of the GPU: its buffers were full")
    if not sure:
        log.warn(CODE, perhaps, "messages of the profiler that records of the GPU may be missing")


def told(message: Any) -> str:
    """The part of a message that says that records were dropped; empty where it says nothing of the kind."""
    found = isinstance(message, str) and (_SURE.search(message) or _PERHAPS.search(message))
    return found[0] if found else ""


def messages_of(header: dict[str, Any]) -> list[Any]:
    """The log of Kineto among the top-level keys of a trace."""
    lists = (header.get(level) for level in LEVELS)
    return [text for found in lists if isinstance(found, list) for text in found]
