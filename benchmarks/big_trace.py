"""Make a big Kineto trace out of a real one: its events again and again, with shifted ids and times.

All gaps between times vary at random, each time differently: a trace that repeats itself would compress too well.

python benchmarks/big_trace.py SOURCE.json.gz OUT.json --megabytes 277
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, count, pairwise
from math import inf
from pathlib import Path
from typing import Any

_ID_KEYS = ("correlation", "External id", "external id", "Python id", "Python parent id")
_MARKED = re.compile(r'"\\u0000([^"]+)"')


@dataclass(frozen=True)
class Template:
    """The text of an event with places for its times and ids, and what these are in the trace that is repeated."""

    text: str
    begin: float | None
    end: float | None
    ids: dict[str, int]

    def filled(self, times_us: dict[float, float], shift: int) -> str:
        """The event with new times, its ids shifted."""
        values: dict[str, float] = {key: number + shift for key, number in self.ids.items()}
        if self.begin is not None:
            values["ts"] = round(begin := times_us[self.begin], 3)
            if self.end is not None:
                values["dur"] = round(times_us[self.end] - begin, 3)
        return self.text % values


def template(event: dict[str, Any]) -> Template:
    begin = event["ts"] if isinstance(event.get("ts"), int | float) else None
    end = begin + event["dur"] if begin is not None and "dur" in event else None
    args = event["args"] if isinstance(event.get("args"), dict) else {}
    ids = {key: value for key, value in args.items() if key in _ID_KEYS and isinstance(value, int)}
    marked = event | ({"args": args | {key: f"\0{key}" for key in ids}} if args else {})
    if isinstance(event.get("id"), int):
        ids["id"], marked["id"] = event["id"], "\0id"
    marked |= {key: f"\0{key}" for key, value in (("ts", begin), ("dur", end)) if value is not None}
    text = json.dumps(marked, indent=2).replace("%", "%%")
    return Template(_MARKED.sub(r"%(\1)s", text), begin, end, ids)


def varied(old: list[float], begin: float, chance: random.Random) -> dict[float, float]:
    """A new time for each of some sorted ones, from ``begin`` on, in the same order."""
    gaps = ((later - earlier) * chance.uniform(0.7, 1.3) for earlier, later in pairwise(old))
    return dict(zip(old, accumulate(gaps, initial=begin), strict=True))


def texts(events: list[dict[str, Any]], begin: float) -> Iterator[str]:
    """The events again and again; metadata only once."""
    first = [template(event) for event in events]
    again = [each for each, event in zip(first, events, strict=True) if event.get("ph") != "M"]
    ids = 1 + max((number for each in again for number in each.ids.values()), default=0)
    old = sorted({at for each in first for at in (each.begin, each.end) if at is not None})
    chance = random.Random(1)
    for times in count():
        times_us = varied(old, begin, chance)
        begin = max(times_us.values()) + 1000
        for each in again if times else first:
            yield each.filled(times_us, times * ids)


def make(source: Path, out: Path, *, megabytes: float = inf, events: float = inf, begin_us: float = 0.0) -> None:
    """Write so many megabytes or events, whichever is reached first; the first one at ``begin_us``."""
    raw = source.read_bytes()
    trace = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    with out.open("w") as file:
        header = json.dumps({key: value for key, value in trace.items() if key != "traceEvents"}, indent=2)
        file.write(header[: header.rindex("}")].rstrip() + ',\n  "traceEvents": [\n')
        written = 0
        for number, text in enumerate(texts(trace["traceEvents"], begin_us), 1):
            written += file.write(text if number == 1 else ",\n" + text)
            if written >= megabytes * 1e6 or number >= events:
                break
        file.write("\n]}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=float, default=277)
    parser.add_argument("--begin-us", type=float, default=0.0, help="the time at which it begins")
    options = parser.parse_args()
    make(options.source, options.out, megabytes=options.megabytes, begin_us=options.begin_us)


if __name__ == "__main__":
    main()
