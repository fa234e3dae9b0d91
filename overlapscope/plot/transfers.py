"""The figure of the guide on pinned memory, from measurements: the time of each way to send a tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

from overlapscope.calibration.data import gpus
from overlapscope.formatting import safe
from overlapscope.plot.style import WIDTHS_IN, check_suffix, rc, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEIGHT_IN = 2.5
_COLORS = ("#D55E00", "#E69F00", "#5E548E", "#0072B2", "#56B4E9", "#9DA9BA", "#009E73")
_MARKS = ("o", "s", "^", "D", "v", "x", "P")
_BAR = "#9DA9BA"
_SLOW_BAR = "#D55E00"


def save_transfers(measured: Mapping[str, Any], path: str | Path) -> None:
    """Draw what ``overlapscope.workloads.pinning_sweep`` has measured; ``.png``, ``.svg`` or ``.pdf``.

    Left, the throughput of each way over the size of a tensor; right, the time for many small ones.

    Raises:
        OutputError: another suffix, or the file cannot be written.
        KeyError: ``measured`` is no such measurement.
    """
    path = Path(path)
    check_suffix(path)
    with mpl.rc_context(rc()):
        figure = Figure(figsize=(WIDTHS_IN["page"], _HEIGHT_IN), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        draw_ways(left, measured["transfers"])
        draw_many(right, measured["many"])
        figure.suptitle(_title(measured), fontsize=7)
        save_figure(figure, path)


def draw_ways(ax: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """Throughput in GB/s over the size in bytes, a line per way."""
    ways = list(dict.fromkeys(row["way"] for row in rows))
    for way, color, mark in zip(ways, cycle(_COLORS), cycle(_MARKS), strict=False):
        rows_of_way = [row for row in rows if row["way"] == way]
        sizes = [row["size_bytes"] for row in rows_of_way]
        rates = [row["size_bytes"] / row["median_us"] / 1e3 for row in rows_of_way]
        ax.plot(sizes, rates, color=color, marker=mark, markersize=3, linewidth=1, label=safe(way))
    ax.set(xscale="log", yscale="log", xlabel="size of a tensor", ylabel="GB/s")
    ax.set_xscale("log", base=2)
    powers = range(10, 31, 4)
    ax.set_xticks([2**power for power in powers], [_size(2**power) for power in powers])
    ax.set_xlim(min(row["size_bytes"] for row in rows) / 1.5, max(row["size_bytes"] for row in rows) * 1.5)
    ax.grid(visible=True, which="major", linewidth=0.3, color="#DDE1E7")
    ax.legend(frameon=False, fontsize=6)


def draw_many(ax: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """Milliseconds for many small tensors, a bar per form, with the whole range of the repeats."""
    names = [safe(row["variant"]) for row in rows]
    times = [row["median_ms"] for row in rows]
    spread = [
        [row["median_ms"] - row["min_ms"] for row in rows],
        [row["max_ms"] - row["median_ms"] for row in rows],
    ]
    colors = [_SLOW_BAR if time == max(times) else _BAR for time in times]
    ax.barh(names, times, xerr=spread, color=colors, height=0.65, error_kw={"linewidth": 0.6})
    ax.invert_yaxis()
    ax.set_xlabel(f"ms for {rows[0]['count']:,} tensors of {_size(rows[0]['size_bytes'])}")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _title(measured: Mapping[str, Any]) -> str:
    gpu, versions = next(iter(gpus(measured.get("devices"))), None), measured.get("versions") or {}
    parts = ["no GPU" if gpu is None else safe(gpu.name)]
    if gpu is not None and gpu.link.pcie_generation and gpu.link.pcie_width:
        parts.append(f"PCIe {gpu.link.pcie_generation} x{gpu.link.pcie_width}")
    if versions.get("torch"):
        parts.append(safe(f"torch {versions['torch']}"))
    return ", ".join(parts)


def _size(size_bytes: int) -> str:
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:  # noqa: PLR2004 - binary prefixes
            break
        value, unit = value / 1024, larger
    return f"{value:g} {unit}"
