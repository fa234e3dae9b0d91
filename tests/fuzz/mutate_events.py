"""Mutations of the events of a Kineto trace, and of its header."""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from tests.fuzz import odd

Document = dict[str, Any]
Event = dict[str, Any]
_KEYS = ("ts", "dur", "ts", "dur", "pid", "tid", "name", "cat", "ph", "args")
_ARGUMENTS = ("correlation", "stream", "device", "bytes", "context", "grid", "block", "cuda_sync_kind", "External id")


def some(rng: random.Random, events: list[Event]) -> list[Event]:
    """One event, a few, all of a category, or all."""
    if not events:
        return []
    chosen = rng.choice(events)
    few = rng.sample(events, min(len(events), rng.randint(1, 5)))
    alike = [event for event in events if event.get("cat") == chosen.get("cat")]
    return rng.choice(([chosen], few, few, alike, events))


def key_changed(rng: random.Random, document: Document) -> None:
    """A key of some events has an odd value."""
    key, value = rng.choice(_KEYS), odd.value(rng)
    for event in some(rng, document["traceEvents"]):
        event[key] = value


def argument_changed(rng: random.Random, document: Document) -> None:
    """An argument of some events has an odd value."""
    chosen = some(rng, document["traceEvents"])
    known = [name for event in chosen[:20] for name in _arguments(event)] or _ARGUMENTS
    key, value = rng.choice((rng.choice(known), rng.choice(_ARGUMENTS))), odd.value(rng)
    for event in chosen:
        event["args"] = dict(_arguments(event)) | {key: value}


def key_removed(rng: random.Random, document: Document) -> None:
    """Some events lack a key, or an argument."""
    key, argument = rng.choice(_KEYS), rng.choice(_ARGUMENTS)
    for event in some(rng, document["traceEvents"]):
        if rng.random() < 0.5:
            event.pop(key, None)
        else:
            event["args"] = {name: value for name, value in _arguments(event).items() if name != argument}


def times_shifted(rng: random.Random, document: Document) -> None:
    """Some events begin at another time."""
    shift = odd.time_shift(rng) / 1000
    for event in some(rng, document["traceEvents"]):
        if isinstance(event.get("ts"), int | float):
            event["ts"] += shift


def times_scaled(rng: random.Random, document: Document) -> None:
    """Some events begin elsewhere, or last longer or less long, by a factor."""
    key, factor = rng.choice(("ts", "dur", "dur")), rng.choice((-1, 0, 1e-3, 0.5, 2, 1e3, 1e6, 1e9, 1e12))
    for event in some(rng, document["traceEvents"]):
        if isinstance(event.get(key), int | float):
            event[key] *= factor


def swapped(rng: random.Random, document: Document) -> None:
    """Events of a key exchange their values."""
    key = rng.choice(_KEYS)
    chosen = some(rng, document["traceEvents"])
    values = [event.get(key) for event in chosen]
    rng.shuffle(values)
    for event, value in zip(chosen, values, strict=True):
        event[key] = value


def dropped(rng: random.Random, document: Document) -> None:
    """Some events are missing."""
    gone = {id(event) for event in some(rng, document["traceEvents"])}
    document["traceEvents"] = [event for event in document["traceEvents"] if id(event) not in gone]


def doubled(rng: random.Random, document: Document) -> None:
    """Some events are there twice, at the end."""
    document["traceEvents"] += deepcopy(some(rng, document["traceEvents"])[:500])


def shuffled(rng: random.Random, document: Document) -> None:
    """The events have another order."""
    rng.shuffle(document["traceEvents"])


def one_place(rng: random.Random, document: Document) -> None:
    """Some events have one stream, device, thread, correlation or begin for all."""
    chosen = some(rng, document["traceEvents"])
    key = rng.choice(("stream", "device", "correlation", "tid", "pid", "ts", "dur", "name"))
    first = next((place[key] for event in chosen for place in (event, _arguments(event)) if key in place), 1)
    for event in chosen:
        if key in {"tid", "pid", "ts", "dur", "name"}:
            event[key] = first
        else:
            event["args"] = dict(_arguments(event)) | {key: first}


def header_changed(rng: random.Random, document: Document) -> None:
    """A value anywhere in the header is odd, or missing."""
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        keys = [key for key in keys if key != "traceEvents"]
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.85:
            place = place[key]
            continue
        if rng.random() < 0.15:
            del place[key]
        else:
            place[key] = odd.value(rng)
        return


def scattered(rng: random.Random, document: Document) -> None:
    """Some events are those of other processes, threads, devices or streams, one after the other."""
    key, count = (
        rng.choice(("pid", "tid", "device", "stream", "context", "correlation")),
        rng.choice((2, 3, 50, 10_000)),
    )
    for event in some(rng, document["traceEvents"]):
        if key in {"pid", "tid"}:
            event[key] = rng.randrange(count)
        else:
            event["args"] = dict(_arguments(event)) | {key: rng.randrange(count)}


def renamed(rng: random.Random, document: Document) -> None:
    """Some events have a hostile name, or one that means something."""
    name = rng.choice((*odd.TEXTS, *odd.HOSTILE))
    for event in some(rng, document["traceEvents"]):
        event["name"] = name


MUTATIONS: tuple[Callable[[random.Random, Document], None], ...] = (
    key_changed, key_changed, key_changed, argument_changed, argument_changed, key_removed, times_shifted,
    times_shifted, times_scaled, swapped, dropped, doubled, shuffled, one_place, header_changed, header_changed,
    scattered, renamed,
)  # fmt: skip


def _arguments(event: Event) -> Event:
    found = event.get("args")
    return found if isinstance(found, dict) else {}
