"""Warnings about a trace, collected while it is read; they become its `Health`.

Two kinds of files bring warnings of their own. A profiler says in its messages that it dropped records: Nsight Systems
in the diagnostics of a report, Kineto in the log that torch writes after the events. A scrubbed trace says what was
wrong with the text of its original.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from overlapscope.calibration.data import count
from overlapscope.model.columns import Bool
from overlapscope.model.trace import Health, HealthSeverity, HealthWarning

HEALTH_KEY = "overlapscopeHealth"
"""The top-level key of a scrubbed Kineto trace for the warnings about the text of its original."""
MESSAGE_KEYS = ("WARNING", "ERROR")
"""The top-level keys of a Kineto trace for the messages of its log."""
_DROPPED_SURELY = re.compile(r"Exceeded max GPU buffer count|Dropped \d+ activity records|collection was stopped early")
_DROPPED_PERHAPS = re.compile(r"CU(?:DA|PTI) events might (?:be missing|have been collected)")
_TEXT_CODES = {
    "bad-header", "bad-trailer", "corrupt-gzip", "lost-events", "repaired-events", "second-trace", "trailing-bytes",
    "truncated",
}  # fmt: skip
"""Codes of warnings about the text of a file: a scrubbed file is whole, so it has to carry them."""
_LONGEST_MESSAGE = 300  # characters
_WORK = "kernels, copies or memsets"
_WARNINGS = {
    HealthSeverity.DAMAGE: {
        "bad-trailer": "the {}",
        "copies-not-recorded": "copy calls were recorded, but not their copies; device times of copies are unknown",
        "corrupt-gzip": "the compressed data is damaged ({}); everything before the damage was read",
        "damaged-table": "the table {} is damaged ({}); {} rows were read",
        "device-work-lost": "calls that launch or copy were recorded, but no device work: the profiler lost the GPU's "
        "records",
        "far-off-time": "events more than a week from most others, so their time is wrong; left out",
        "kernels-not-recorded": "launch calls were recorded, but not their kernels; the GPU's time in kernels is "
        "unknown",
        "lost-events": "events that could not be read or repaired; left out",
        "lost-names": "rows whose name is not in the table StringIds; it is not known",
        "missing-column": "{}",
        "negative-duration": "{} that end before they start; left out",
        "no-phase": "events of a known category without a duration phase; left out",
        "no-time": "{} without a {}; left out",
        "records-dropped": "messages of the profiler that it dropped records of the GPU: its buffers were full",
        "second-trace": "the file has a second list of events, which was not read",
        "truncated": "the {}",
        "unknown-device-work": "calls that launch or copy were recorded, but their device work has an unknown format "
        "(see the unknown categories): this accelerator is not supported",
        "wrong-device-clock": f"{_WORK} more than an hour from every host event: their clock is wrong, and so are wall "
        "and idle times",
    },
    HealthSeverity.WARNING: {
        "ambiguous-correlation": f"{_WORK} whose correlation id several calls share; matched by time",
        "bad-header": "the part before the events is not valid JSON; versions and devices are not known",
        "device-work-without-call": f"{_WORK} without the call that issued them: their launch delay and range are "
        "unknown",
        "duplicate-device-work": f"{_WORK} recorded twice, identical in everything; both count",
        "impossible-size": "copies or memsets with an impossible size; it is taken for unknown",
        "no-device": f"{_WORK} without a device number",
        "no-process": f"{_WORK} without a process",
        "no-size": "copies without a size",
        "no-stream": f"{_WORK} without a stream",
        "open-range": "NVTX ranges that were never closed; left out",
        "repaired-events": "malformed events were repaired and read",
        "shared-correlation": "kernels whose launch call belongs to another kernel already; left without a call",
        "starts-before-launch": f"{_WORK} start up to {{:.1f}} us before the call that issued them: host and device "
        "clocks disagree, so launch delays are doubtful",
        "trailing-bytes": "bytes that are not gzip follow the compressed data; not read",
        "unknown-direction": "copies without a direction",
        "whole-graph-trace": "CUDA graph launches were traced as a whole: the kernels and copies inside are not in the "
        "trace; record with --cuda-graph-trace=node",
    },
    HealthSeverity.INFO: {
        "calls-without-device-work": "calls that launch or copy without device work in the trace: of no bytes, at its "
        "end, captured into a graph, or lost",
        "duplicate-calls": "calls recorded twice (wrapper and runtime); counted once",
        "failed-calls": "calls that launch or copy returned an error, and issued nothing",
        "guessed-process": f"{_WORK} whose correlation id several processes use; assigned to the most likely one",
        "inferred-waits": "stream waits without a recorded event; the stream that they wait for is inferred",
        "no-device-work": "{}",
        "not-wanted": "events outside of the window or of the categories that were asked for; left out",
        "syncs-not-recorded": "synchronising calls without synchronisation events; {}",
        "unknown-category": "events of an unknown category ({}); left out",
        "unknown-memory-kind": "copies without a memory kind, so they may be pageable or pinned (ROCm does not record "
        "it)",
        "unknown-wait-source": "stream waits for a stream that is neither recorded nor inferred",
    },
}
"""All warnings by severity, the worst first, and code: the text, with places for what differs from trace to trace."""
_SEVERITIES = {code: severity for severity, texts in _WARNINGS.items() for code in texts}


class HealthLog:
    """Warnings by code, in the order of their first appearance."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._texts: dict[str, tuple[HealthSeverity, str, int | None]] = {}
        self.events_read = 0
        self.events_kept = 0

    def add(self, code: str, rows: int | Bool, *details: object, of: int | None = None) -> None:
        """Add to a warning: so many rows, or which rows; of these ``of`` could be concerned. No row does nothing.

        ``details`` go into the places of its text. A code may say more after a colon.
        """
        kind = code.partition(":")[0]
        severity = _SEVERITIES[kind]
        count = rows if isinstance(rows, int) else int(rows.sum())
        share = of if of is not None or isinstance(rows, int) else len(rows)
        self._put(code, severity, count, _WARNINGS[severity][kind].format(*details), share)

    def _put(self, code: str, severity: HealthSeverity, count: int, message: str, of: int | None = None) -> None:
        if count > 0:
            self._counts[code] = self._counts.get(code, 0) + count
            self._texts[code] = (severity, message, of)

    def has_prefix(self, prefix: str) -> bool:
        """Whether a warning's code starts like this."""
        return any(code.startswith(prefix) for code in self._counts)

    def note_dropped(self, messages: Iterable[Any]) -> None:
        """Add what messages of a profiler say of dropped records; what is no text is left out."""
        texts = [text for text in messages if isinstance(text, str)]
        sure = sum(_DROPPED_SURELY.search(text) is not None for text in texts)
        perhaps = 0 if sure else sum(_DROPPED_PERHAPS.search(text) is not None for text in texts)
        text = "messages of the profiler that records of the GPU may be missing"
        self.add("records-dropped", sure)
        self._put("records-dropped", HealthSeverity.WARNING, perhaps, text)

    def note_original(self, written: Any) -> None:
        """Add the warnings that a scrubbed trace brings from its original; malformed ones are left out."""
        for each in written if isinstance(written, list) else ():
            if not isinstance(each, dict) or each.get("code") not in _TEXT_CODES:
                continue
            severity, number, message = each.get("severity"), count(each.get("count")), each.get("message")
            if severity in set(HealthSeverity) and number is not None and isinstance(message, str):
                self._put(each["code"], HealthSeverity(severity), number, message[:_LONGEST_MESSAGE])
                self.events_read += number if each["code"] == "lost-events" else 0

    def health(self) -> Health:
        """All warnings, the worst first."""
        warnings = [
            HealthWarning(code, severity, count, min(1.0, count / of) if of else None, message)
            for (code, count), (severity, message, of) in zip(self._counts.items(), self._texts.values(), strict=True)
        ]
        warnings.sort(key=lambda warning: list(_WARNINGS).index(warning.severity))
        return Health(tuple(warnings), self.events_read, self.events_kept)


def dropped_records(message: Any) -> str:
    """The part of a profiler's message that says that records were dropped; empty where it says nothing of the kind."""
    match = isinstance(message, str) and (_DROPPED_SURELY.search(message) or _DROPPED_PERHAPS.search(message))
    return match[0] if match else ""


def messages_of(header: dict[str, Any]) -> list[Any]:
    """The messages of Kineto's log among the top-level keys of a trace."""
    lists = (header.get(key) for key in MESSAGE_KEYS)
    return [text for texts in lists if isinstance(texts, list) for text in texts]


def text_warnings(warnings: Iterable[HealthWarning]) -> list[dict[str, Any]]:
    """The warnings about the text of a file, as a scrubbed trace carries them."""
    return [
        {"code": each.code, "severity": str(each.severity), "count": each.count, "message": each.message}
        for each in warnings
        if each.code in _TEXT_CODES
    ]
