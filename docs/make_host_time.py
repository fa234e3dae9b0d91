"""Write docs/host_time.md, and its figure, from benchmarks/host_time.json, which a GPU measured.

python docs/make_host_time.py [--check]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from few_colours import reduce_colours

SOURCE = Path(__file__).parent.parent / "benchmarks" / "host_time.json"
TARGET = Path(__file__).with_name("host_time.md")
FIGURE = Path(__file__).with_name("images") / "host_time.png"
_WAITED = 0.9  # of the time of the work before it: a call that takes this long waited for it
_KINDS = (("HtoD", "pageable"), ("HtoD", "pinned"), ("DtoH", "pageable"), ("DtoH", "pinned"))
_BLUES = ("#C6DBEF", "#6BAED6", "#2171B5", "#08306B")
Row = Mapping[str, Any]

TEXT = """# How long a copy call blocks the host

Made from `benchmarks/host_time.json` by `docs/make_host_time.py`; do not edit. Measured by `benchmarks/host_time.py` on
{gpu}, CUDA {cuda}, torch {torch}: medians of {repeats} calls of `copy_`.

![Time of a copy call by size, on an idle stream and behind {busy_ms:.0f} ms of work](images/host_time.png)

- **To the GPU, pageable, `non_blocking=True`**: the call returns when its bytes are staged. Up to {staged} it does
  not wait for the work before it on its stream: behind {busy_ms:.0f} ms of work, a call of {staged} took
  {staged_us:,.0f} us. From {waits} on it waits for that work too. On an idle stream, a call of 64 MiB took
  {large_us:,.0f} us; {early_us:,.0f} us later the host knew that the copy was complete.
- **To the GPU, pageable, blocking**: the call waits for the copy, and so for all work before it, at every size: behind
  work, one of 1 KiB took {blocking_us:,.0f} us.
- **To the host, pageable**: the call waits at every size, also with `non_blocking=True`.
- **Pinned, `non_blocking=True`**: the call waits for nothing. Over all sizes it took {pinned_us:,.0f} us at the median
  on an idle stream, {pinned_busy_us:,.0f} us behind work.
- **`pin_memory()`**: new memory costs {cold_us:,.0f} us for 64 MiB; memory that PyTorch has cached {warm_us:,.0f} us.
- **`pin_memory()` in threads**: for {pieces} pieces of {least} to {most} together, four threads take {cold_four} times
  as long as one for new memory, and {warm_four} times for cached memory. Plain threads of Python were
  measured, not `TensorDict.to(..., num_threads=4)` itself.

Times in us. *Behind work*: with {busy_ms:.0f} ms of work before the copy on its stream.

"""
THREADS_TEXT = """## `pin_memory()` in threads

{pieces} pieces of this size together, shared by threads of Python, in us. *Cold*: PyTorch has no pinned memory cached.
*Warm*: it uses again what it pinned before.

"""
HEAD = "| size | pageable | pageable, behind work | pinned | pinned, behind work |\n|---|---|---|---|---|\n"


def page(found: Mapping[str, Any]) -> str:
    """The page for what was measured."""
    rows, machine = found["copies"], found["machine"]
    up, pinned = _of(rows, "HtoD", "pageable"), _of(rows, "HtoD", "pinned")
    waits = [row for row in up if row["busy_call_us"] >= _WAITED * machine["busy_ms"] * 1e3]
    staged, large = up[up.index(waits[0]) - 1], next(row for row in up if row["size_bytes"] == 2**26)
    blocking = _of(rows, "HtoD", "pageable", blocking=True)[0]
    pinning = next(row for row in found["pinning"] if row["size_bytes"] == 2**26)
    threads = found["pinning_threads"]
    sizes = sorted({row["size_bytes"] for row in threads})
    text = TEXT.format(
        **machine,
        pieces=threads[0]["pieces"],
        least=_size(sizes[0]),
        most=_size(sizes[-1]),
        cold_four=_four_to_one(threads, sizes, "cold_us"),
        warm_four=_four_to_one(threads, sizes, "warm_us"),
        staged=_size(staged["size_bytes"]),
        staged_us=staged["busy_call_us"],
        waits=_size(waits[0]["size_bytes"]),
        large_us=large["idle_call_us"],
        early_us=large["idle_done_us"] - large["idle_call_us"],
        pinned_us=median(row["idle_call_us"] for row in pinned),
        pinned_busy_us=median(row["busy_call_us"] for row in pinned),
        blocking_us=blocking["busy_call_us"],
        cold_us=pinning["cold_us"],
        warm_us=pinning["warm_us"],
    )
    return text + "\n".join((*_tables(rows), _threads(found["pinning_threads"])))


def _of(rows: Sequence[Row], direction: str, memory: str, *, blocking: bool = False) -> list[Row]:
    wanted = (direction, memory, blocking)
    return [row for row in rows if (row["direction"], row["memory"], row["blocking"]) == wanted]


def _tables(rows: Sequence[Row]) -> Iterator[str]:
    for direction, title in (("HtoD", "To the GPU"), ("DtoH", "To the host")):
        pairs = zip(_of(rows, direction, "pageable"), _of(rows, direction, "pinned"), strict=True)
        lines = [
            f"| {_size(one['size_bytes'])} | "
            + " | ".join(f"{row[key]:,.0f}" for row in (one, other) for key in ("idle_call_us", "busy_call_us"))
            + " |"
            for one, other in pairs
        ]
        yield f"## {title}, `non_blocking=True`\n\n{HEAD}" + "\n".join(lines) + "\n"


def _threads(rows: Sequence[Row]) -> str:
    """What pinning takes, by size and number of threads."""
    counts = sorted({row["threads"] for row in rows})
    names = [f"{state}, {count} thread{'s' * (count > 1)}" for state in ("cold", "warm") for count in counts]
    lines = [
        f"| {_size(size)} | "
        + " | ".join(f"{_pinned(rows, size, count)[key]:,.0f}" for key in ("cold_us", "warm_us") for count in counts)
        + " |"
        for size in sorted({row["size_bytes"] for row in rows})
    ]
    head = f"| size | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}\n"
    return f"{THREADS_TEXT.format(pieces=rows[0]['pieces'])}{head}" + "\n".join(lines) + "\n"


def _four_to_one(rows: Sequence[Row], sizes: Sequence[int], key: str) -> str:
    """The least and the most that four threads take of the time of one, over all sizes."""
    ratios = [_pinned(rows, size, 4)[key] / _pinned(rows, size, 1)[key] for size in sizes]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def _pinned(rows: Sequence[Row], size: int, threads: int) -> Row:
    return next(row for row in rows if (row["size_bytes"], row["threads"]) == (size, threads))


def _size(count: int) -> str:
    if count >= 1 << 30:
        return f"{count >> 30} GiB"
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def draw(found: Mapping[str, Any]) -> None:
    """The figure: time of a call by size, for each direction and memory, and of pinning by threads."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(9.0, 2.8), sharey=True, layout="constrained")
    for panel, state, title in ((panels[0], "idle", "on an idle stream"), (panels[1], "busy", "behind 8 ms of work")):
        for (direction, memory), line in zip(_KINDS, ("-", "-", "--", "--"), strict=True):
            rows = _of(found["copies"], direction, memory)
            color = "#D55E00" if memory == "pageable" else "#0072B2"
            sizes, times = [row["size_bytes"] for row in rows], [row[f"{state}_call_us"] for row in rows]
            panel.loglog(sizes, times, line, color=color, label=f"{direction} {memory}")
        panel.set_title(title, fontsize=9)
        panel.set_xlabel("bytes")
    _draw_threads(panels[2], found["pinning_threads"])
    panels[0].set_ylabel("time of the call (us)")
    panels[0].legend(fontsize=7, frameon=False)
    figure.savefig(FIGURE, dpi=110)
    reduce_colours(FIGURE)


def _draw_threads(panel: Any, rows: Sequence[Row]) -> None:
    """Time to pin pieces by their size together, a line for each number of threads."""
    for threads, color in zip(sorted({row["threads"] for row in rows}), _BLUES, strict=True):
        own = [row for row in rows if row["threads"] == threads]
        sizes = [row["size_bytes"] for row in own]
        name = f"{threads} thread{'s' * (threads > 1)}"
        panel.loglog(sizes, [row["cold_us"] for row in own], color=color, label=f"{name}, cold")
        panel.loglog(sizes, [row["warm_us"] for row in own], "--", color=color, label="warm")
    panel.set_title("pin_memory() in threads", fontsize=9)
    panel.set_xlabel("bytes")
    panel.legend(fontsize=6, frameon=False, ncols=2)


def main() -> None:
    """Write the page, or check it."""
    found = json.loads(SOURCE.read_text(encoding="utf-8"))
    text = page(found)
    if "--check" in sys.argv:
        if TARGET.read_text(encoding="utf-8") != text:
            sys.exit("docs/host_time.md is out of date: run python docs/make_host_time.py")
        return
    TARGET.write_text(text, encoding="utf-8")
    draw(found)


if __name__ == "__main__":
    main()
