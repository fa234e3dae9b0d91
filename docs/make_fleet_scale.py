"""Write docs/fleet_scale.md from benchmarks/fleet_scale.json: what a fleet costs here, and with many more workers.

python docs/make_fleet_scale.py [--check]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent.parent / "benchmarks" / "fleet_scale.json"
TARGET = Path(__file__).with_name("fleet_scale.md")
_BUSY = 0.9  # of the map: what is busy for so much of it limits it
Row = Mapping[str, Any]

TEXT = """# What a fleet costs

Made from `benchmarks/fleet_scale.json` by `docs/make_fleet_scale.py`; do not edit. Measured by
`benchmarks/fleet_scale.py` on a machine with {cpus} CPUs, busy with other programs: rates are of that hour, CPU time
compares. Up to two workers and 1,000 ranks are measured, what goes beyond is simulated from the costs of the parts.

## The map, by workers

{maps}

Times include the start of the worker processes. A worker has one trace in memory at a time.

## The law

A worker takes {worker_start_s:.1f} s of CPU to start, {worker_trace_ms:.0f} ms for a trace, and {worker_mb_ms:.0f} ms
more for each MB of its JSON (plain, whatever it is compressed to). The made ranks have many collectives: a trace with
few of them takes 6 ms for each MB (277 MB, in the README of the benchmarks).

Serial are, for each trace: {scheduler_ms:.2f} ms in the Dask scheduler, {client_ms:.2f} ms in the process that collects
outcomes, and the reduce. The scheduler's costs were measured with tasks that do nothing, with arguments like ours.

The reduce takes {reduce_start_s:.1f} s of CPU, {reduce_ms:.1f} ms for each rank, and {reduce_row_us:.1f} µs for each
collective of each rank. Its memory is {reduce_mb:.0f} MB, {reduce_kb:.0f} KB for each rank, and {reduce_row_b:.0f}
bytes for each collective of each rank: 1,000 ranks with 2,000 collectives need {example_mb:,.0f} MB.

## The map, by ranks

{ranks}

Two workers, ranks of three steps with nine collectives each. Memory of the map does not grow with the number of ranks.

## The reduce, by ranks and collectives

{reduces}

The results are those of ten ranks, again and again under other numbers. A row of a collective is kept as five integers:
rank, begin and end are needed together to say who arrives last, and to simulate the job without its late ranks. Clocks
are aligned on at most 200 collectives of the same ranks. The steps and idle times of all ranks are kept too; everything
else passes through, a hundred traces at a time.

## Opened traces are not kept

`overlapscope report` and others keep [opened traces](howto/scripts.md) as Arrow files. A fleet does not: of the 5.7 s
of CPU for a trace of 60 MB, opening it takes 0.6 s, and 0.4 s from the cache, which takes 0.5 s to fill. A second run
reads results, and needs neither. The traces of a large job would push everything else out.

## 10,000 ranks, simulated

{simulated}

MB are those of the plain JSON of a trace, of {collectives:,} collectives. A task passes the scheduler twice, half its
cost each time, then the process that collects outcomes, each one task at a time; a worker takes what the law says.
*Busy* are the shares of the map in which workers and scheduler have something to do.

{needs}
"""


def page(found: Mapping[str, Any]) -> str:
    """The page for what was measured."""
    costs = found["costs"]
    each = costs["reduce_trace_bytes"] + 2000 * costs["reduce_collective_bytes"]
    return TEXT.format(
        cpus=found["machine"]["cpus"],
        maps="\n".join(_maps(found["maps"])),
        worker_start_s=costs["worker_start_s"],
        worker_trace_ms=costs["worker_trace_s"] * 1e3,
        worker_mb_ms=costs["worker_byte_s"] * 1e9,
        scheduler_ms=costs["scheduler_task_s"] * 1e3,
        client_ms=costs["client_task_s"] * 1e3,
        reduce_ms=costs["reduce_trace_s"] * 1e3,
        reduce_start_s=costs["reduce_start_s"],
        reduce_row_us=costs["reduce_collective_s"] * 1e6,
        reduce_mb=costs["reduce_bytes"] / 1e6,
        reduce_kb=costs["reduce_trace_bytes"] / 1e3,
        reduce_row_b=costs["reduce_collective_bytes"],
        example_mb=(costs["reduce_bytes"] + 1000 * each) / 1e6,
        ranks="\n".join(_ranks(found["ranks"])),
        reduces="\n".join(_reduces(found["reduces"])),
        collectives=found["simulated"][0]["collectives"],
        simulated="\n".join(_simulated(found["simulated"])),
        needs="\n".join(_needs(found)),
    )


def _maps(rows: Sequence[Row]) -> Iterator[str]:
    yield "| JSON of a trace | workers | traces/s | MB/s of JSON | CPU s/trace | peak: worker | parent |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        size, rate = row["json_bytes"] / row["traces"] / 1e6, row["traces"] / row["wall_s"]
        cpu, peaks = row["cpu_s"] / row["traces"], (row["worker_peak_mb"], row["peak_mb"])
        yield (
            f"| {size:.2g} MB | {row['workers']} | {rate:.1f} | {rate * size:.1f} | {cpu:.2f} | "
            f"{peaks[0]:.0f} MB | {peaks[1]:.0f} MB |"
        )


def _ranks(rows: Sequence[Row]) -> Iterator[str]:
    yield "| ranks | traces/s | CPU s/trace | peak: worker | parent |"
    yield "|---|---|---|---|---|"
    for row in rows:
        yield (
            f"| {row['ranks']:,} | {row['ranks'] / row['map_wall_s']:.1f} | {row['map_cpu_s'] / row['ranks']:.2f} | "
            f"{row['map_worker_peak_mb']:.0f} MB | {row['map_peak_mb']:.0f} MB |"
        )


def _reduces(rows: Sequence[Row]) -> Iterator[str]:
    yield "| ranks | collectives of each | CPU s | peak |"
    yield "|---|---|---|---|"
    for row in rows:
        yield f"| {row['ranks']:,} | {row['collectives']:,} | {row['cpu_s']:.1f} | {row['peak_mb']:.0f} MB |"


def _simulated(rows: Sequence[Row]) -> Iterator[str]:
    yield "| MB a trace | workers | map | reduce | workers busy | scheduler busy | what limits the map |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        yield (
            f"| {row['megabytes']:g} | {row['workers']:,} | {_time(row['map_s'])} | {_time(row['reduce_s'])} | "
            f"{row['workers_busy']:.0%} | {row['scheduler_busy']:.0%} | {_limit(row)} |"
        )


def _limit(row: Row) -> str:
    shares = {"workers": row["workers_busy"], "scheduler": row["scheduler_busy"], "collecting": row["client_busy"]}
    name = max(shares, key=lambda each: shares[each])
    return name if shares[name] >= _BUSY else "the last traces"


def _needs(found: Mapping[str, Any]) -> Iterator[str]:
    """What a thousand workers need, in words."""
    costs, most = found["costs"], max(row["workers"] for row in found["simulated"])
    worker_mb = max(row["worker_peak_mb"] for row in found["maps"])
    packed = found["maps"][-1]["bytes"] / found["maps"][-1]["json_bytes"]
    yield f"What {most:,} workers need:\n"
    yield f"- **Memory**: {most * worker_mb / 1e3:.0f} GB together, for traces like the large ones above."
    rate = most / costs["worker_byte_s"] * packed / 1e9
    yield f"- **Storage**: up to {rate:.1f} GB/s of compressed traces; results are some KB each."
    own = 1 / max(costs["scheduler_task_s"], costs["client_task_s"])
    yield (
        f"- **Traces that take longer than {most / own:.1f} s** of a worker: below that the scheduler, which passes "
        f"{own:,.0f} a second,\n  leaves workers idle. `--shard` has no scheduler, and no such limit."
    )
    each = costs["reduce_trace_bytes"] + found["simulated"][0]["collectives"] * costs["reduce_collective_bytes"]
    ranks = found["simulated"][0]["ranks"]
    yield f"- **Memory for the reduce** of {ranks:,} ranks: {(costs['reduce_bytes'] + ranks * each) / 1e9:.1f} GB."
    longest = [row for row in found["simulated"] if row["workers"] == most]
    part = ", ".join(f"{row['reduce_s'] / (row['map_s'] + row['reduce_s']):.0%}" for row in longest)
    sizes = ", ".join(f"{row['megabytes']:g}" for row in longest)
    yield f"- **Patience with the reduce**, which is one process: {part} of the whole for traces of {sizes} MB."


def _time(seconds: float) -> str:
    return f"{seconds / 60:,.0f} min" if seconds >= 600 else f"{seconds:,.0f} s"  # noqa: PLR2004 - ten minutes


def main() -> None:
    """Write the page, or check it."""
    text = page(json.loads(SOURCE.read_text(encoding="utf-8")))
    if "--check" not in sys.argv:
        TARGET.write_text(text, encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != text:
        sys.exit("docs/fleet_scale.md is out of date: run python docs/make_fleet_scale.py")


if __name__ == "__main__":
    main()
