"""Fixes for the DataLoaders that a recording notes."""

from __future__ import annotations

from dataclasses import replace

from overlapscope.calibration.schema import Loader
from overlapscope.diagnosis.places import Moments
from overlapscope.formatting import safe, time
from overlapscope.measure.places import innermost
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.trace import Trace

_COPY = "batch = batch.to(device, non_blocking=True)  # to check: batch.is_pinned()"


def noted_loaders(trace: Trace) -> tuple[Loader, ...]:
    """The DataLoaders that a recording notes, those with the most batches first; each of their texts in one line."""
    loaders = trace.calibration.loaders
    return tuple(replace(each, place=safe(each.place), unpinnable=safe(each.unpinnable)) for each in loaders)


def mostly_in_modules(trace: Trace, copies: Int64) -> bool:
    """Whether modules issue most of the bytes of some copies: these are no batches of a DataLoader."""
    at = Moments.of_calls(trace, trace.copies.call[copies])
    inside = innermost(trace.modules, at.process, at.thread, at.time_ns) != NO_ID
    sizes = trace.copies.size_bytes[copies]
    return bool(2 * sizes[inside].sum() > sizes.sum())


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
    return f"# {loader.settings}{_spent(loader)}\nloader = DataLoader(dataset, {better}"


def _spent(loader: Loader) -> str:
    """What a batch takes in the dataset and in ``collate_fn``, and how often one was ready, as far as that is noted."""
    times = {"the dataset": loader.item_ns, "collate_fn": loader.collate_ns}
    said = [f"{time(spent)} in {what}" for what, spent in times.items() if spent]
    a_batch = [f"a batch takes {' and '.join(said)}"] if said else []
    empty = [f"none ready at {loader.ready.count(0)} of {len(loader.ready)}"] if loader.ready else []
    return "".join(f"; {text}" for text in (*a_batch, *empty))
