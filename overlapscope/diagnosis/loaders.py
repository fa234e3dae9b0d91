"""What to change about the DataLoaders that a recording notes, by their place in the program."""

from __future__ import annotations

from dataclasses import replace

from overlapscope.calibration.schema import Loader
from overlapscope.model.trace import Trace

_COPY = "batch = batch.to(device, non_blocking=True)  # to check: batch.is_pinned()"


def noted_loaders(trace: Trace) -> tuple[Loader, ...]:
    """The DataLoaders that a recording notes, those with the most batches first."""
    recording = trace.metadata.recording
    return () if recording is None else recording.loaders


def pinning_fix(trace: Trace) -> str | None:
    """How a DataLoader that hands out pageable batches pins them; None where none does, or none is noted."""
    loader = next((each for each in noted_loaders(trace) if not each.pin_memory or each.unpinnable), None)
    if loader is None or loader.pin_memory is None:
        return None
    unpinned = f", but its batches have no pin_memory(): {loader.unpinnable}" if loader.pin_memory else ""
    lines = [f"# {loader.settings}{unpinned}"]
    if not loader.pin_memory:
        lines.append(f"loader = {replace(loader, pin_memory=True, place='').settings}")
    if loader.unpinnable:
        method = "def pin_memory(self): self.x = self.x.pin_memory(); return self"
        lines.append(f"{method}  # a method of {loader.unpinnable}; the loader calls it")
    return "\n".join([*lines, _COPY])


def workers_fix(trace: Trace) -> str | None:
    """How the DataLoader with the most batches can make them ahead; None where none is noted."""
    loader = next(iter(noted_loaders(trace)), None)
    if loader is None or loader.workers is None:
        return None
    if not loader.workers:
        better = "num_workers=8, prefetch_factor=4, persistent_workers=True)  # batches made ahead"
    else:
        ahead = 2 * (loader.prefetch_factor or 2)
        better = f"num_workers={2 * loader.workers}, prefetch_factor={ahead})  # or less work for each sample"
    return f"# {loader.settings}\nloader = DataLoader(dataset, {better}"
