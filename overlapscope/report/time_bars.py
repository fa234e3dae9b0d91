"""The bar of each GPU's time for a terminal: what the window went to, in parts that add up to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from overlapscope.diagnosis.gpu_time import COLLECTIVES, COPIES, KERNELS, GpuTime
from overlapscope.formatting import numbers, safe, share, time, time_unit
from overlapscope.report.data import DeviceAudit
from overlapscope.report.layout import fitted
from overlapscope.report.tables import Cells

_MOST_BARS = 2  # GPUs with a bar each; more are rows of one table
_LEAST_BAR, _LEAST_LABEL = 12, 20  # characters
_STYLES = {KERNELS: "green", COPIES: "yellow", COLLECTIVES: "magenta"}
_BLOCKS = " ▏▎▍▌▋▊▉█"


def time_bars(devices: Sequence[DeviceAudit], width: int) -> list[RenderableType]:
    """A bar for each of one or two GPUs, a table for more."""
    used = [device for device in devices if device.time.total_ns]
    if len(used) > _MOST_BARS:
        return [*fitted("GPU time", [_row(device) for device in used], width), Text("")]
    return [line for device in used for line in (*_bar(device, width), Text(""))]


def _bar(device: DeviceAudit, width: int) -> Iterator[Text]:
    spent: GpuTime = device.time
    parts = spent.largest()
    unit, name = time_unit([spent.total_ns])
    figures = numbers([part.time_ns for part in parts], unit)
    wide = max(map(len, figures))
    labels = min(max(len(part.label) for part in parts), max(width - wide - 14 - _LEAST_BAR, _LEAST_LABEL))
    room = max(width - labels - wide - 14, 1)
    yield Text(f"{device.key.title} time ({name}), {time(spent.total_ns)} in all", style="bold")
    for part, figure in zip(parts, figures, strict=True):
        line = Text(
            f"  {safe(part.label, labels):<{labels}}  {figure:>{wide}}  {share(part.time_ns, spent.total_ns):>5}  "
        )
        yield line.append(_blocks(room * part.time_ns / spent.total_ns), style=_STYLES.get(part.key, "dim"))


def _blocks(length: float) -> str:
    """A bar of so many characters, to an eighth of one."""
    eighths = round(8 * length)
    return _BLOCKS[8] * (eighths // 8) + _BLOCKS[eighths % 8].strip()


def _row(device: DeviceAudit) -> Cells:
    spent = device.time
    idle = max((part for part in spent.parts if part.key.startswith("idle_")), key=lambda part: part.time_ns)
    whole = spent.total_ns
    return {
        "GPU": device.key.title.removeprefix("GPU "),
        "process": str(device.key.process),
        "window": time(whole),
        "kernels": share(spent.of(KERNELS), whole),
        "exposed copies": share(spent.of(COPIES), whole),
        "exposed collectives": share(spent.of(COLLECTIVES), whole),
        "idle": share(spent.waiting_ns - spent.of(COPIES), whole),
        "most of it": idle.label.removeprefix("idle: ") if idle.time_ns else "",
    }
