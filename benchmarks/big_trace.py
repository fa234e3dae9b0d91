"""Make a big Kineto trace out of a real one: its events again and again, with shifted ids and times.

All gaps between times vary at random, each time differently: a trace that repeats itself would compress too well.

python benchmarks/big_trace.py SOURCE.json.gz OUT.json --megabytes 277
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from itertools import accumulate, pairwise
from math import inf
from pathlib import Path
from typing import Any

_ID_KEYS = ("correlation", "External id", "external id", "Python id", "Python parent id")


def varied(events: list[dict[str, Any]], begin: float, chance: random.Random) -> dict[float, float]:
    """A new time for each begin and end, from ``begin`` on, in the same order."""
    timed = [event for event in events if isinstance(event.get("ts"), int | float)]
    old = sorted({at for event in timed for at in (event["ts"], event["ts"] + event.get("dur", 0))})
    gaps = ((later - earlier) * chance.uniform(0.7, 1.3) for earlier, later in pairwise(old))
    return dict(zip(old, accumulate(gaps, initial=begin), strict=True))


def shifted(event: dict[str, Any], times: int, times_us: dict[float, float], ids: int) -> dict[str, Any]:
    result = dict(event)
    if isinstance(begin := event.get("ts"), int | float):
        result["ts"] = round(times_us[begin], 3)
        if "dur" in event:
            result["dur"] = round(times_us[begin + event["dur"]] - times_us[begin], 3)
    if isinstance(event.get("id"), int):
        result["id"] = event["id"] + times * ids
    if isinstance(args := event.get("args"), dict):
        moved = {key: args[key] + times * ids for key in _ID_KEYS if isinstance(args.get(key), int)}
        result["args"] = args | moved
    return result


def make(source: Path, out: Path, *, megabytes: float = inf, events: float = inf, begin_us: float = 0.0) -> None:
    """Write so many megabytes or events, whichever is reached first; the first one at ``begin_us``."""
    raw = source.read_bytes()
    trace = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    again = [event for event in trace["traceEvents"] if event.get("ph") != "M"]
    ids = 1 + max(
        (value for event in again for key in _ID_KEYS if isinstance(value := (event.get("args") or {}).get(key), int)),
        default=0,
    )
    times, written, count, begin, chance = 0, 0, 0, begin_us, random.Random(1)
    with out.open("w") as file:
        header = json.dumps({key: value for key, value in trace.items() if key != "traceEvents"}, indent=2)
        file.write(header[: header.rindex("}")].rstrip() + ',\n  "traceEvents": [\n')
        while written < megabytes * 1e6 and count < events:
            times_us = varied(trace["traceEvents"], begin, chance)
            begin = max(times_us.values()) + 1000
            for event in again if times else trace["traceEvents"]:
                text = json.dumps(shifted(event, times, times_us, ids), indent=2)
                file.write(("" if written == 0 else ",\n") + text)
                written, count = written + len(text) + 2, count + 1
                if written >= megabytes * 1e6 or count >= events:
                    break
            times += 1
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
