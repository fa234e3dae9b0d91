"""`Rule`: a pattern that idle intervals or a device can match, and its page of documentation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Confidence, Number, Place
from overlapscope.model.columns import Bool, Float64, Int64
from overlapscope.model.enums import Direction

HEADINGS = (
    "What happens",
    "How it shows in a trace",
    "Fix",
    "What the saving assumes",
    "When this misleads",
    "Sources",
)
"""The sections of every rule's page, in order."""


@dataclass(frozen=True)
class Report:
    """What a rule reports about its idle intervals, or about a device.

    ``hazard`` marks wrong results, ``informational`` what costs nothing or happens once. ``kind`` names the kind, where
    a rule has several. Rules about idle intervals leave ``copies``, ``calls`` and ``idle_ns`` out: these come from the
    intervals. ``change``, ``fix`` and ``cuda_fix`` replace those of the rule where they depend on the device.
    """

    message: str
    evidence: Mapping[str, Number]
    confidence: Confidence = Confidence.HIGH
    confirm_with: str = ""
    hazard: bool = False
    informational: bool = False
    copies: Int64 | None = None
    calls: Int64 | None = None
    idle_ns: int | None = None
    change: str | None = None
    fix: str | None = None
    cuda_fix: str | None = None
    kind: str | None = None
    waited_for: str | None = None


def no_claim(context: DeviceContext) -> Bool:
    """Claim no idle interval: for rules about a device as a whole."""
    return context.none


def one_part(context: DeviceContext, rows: Int64) -> tuple[Int64, ...]:
    """Report all idle intervals of a device together: for rules with one kind."""
    del context
    return (rows,)


def no_view(context: DeviceContext) -> Report | None:
    """Report nothing about the device as a whole: for rules about idle intervals."""
    del context
    return None


@dataclass(frozen=True)
class FixFor:
    """A fix for some places: where the operator, the CUDA call, or the ranges and the source line match a pattern.

    Patterns that are empty match everything; letters match in either case.
    """

    fix: str
    op: str = ""
    api: str = ""
    around: str = ""

    def fits(self, place: Place) -> bool:
        """Whether a place matches all patterns."""
        around = f"{place.range or ''} {place.source or ''}"
        pairs = ((self.op, place.op or ""), (self.api, place.api or ""), (self.around, around))
        return all(re.search(pattern, text, re.IGNORECASE) for pattern, text in pairs)


@dataclass(frozen=True)
class Rule:
    """One pattern of lost overlap, how to recognise it and how to fix it.

    Attributes:
        code: its code, such as ``OVL001``; never reused.
        name: name of the pattern, not of the remedy.
        page: its documentation: a title, and the sections of `HEADINGS`.
        fix: PyTorch code that fixes it.
        fixes: fixes for some places, which are better there.
        cuda_fix: CUDA C++ code that fixes it, for programs without a sign of PyTorch; empty where ``fix`` fits any.
        waited_for: what the GPU waits for, as a noun: ``pageable copies``.
        change: the change that simulates the fix.
        not_simulated: where there is none, why.
        claims: which idle intervals of a device match it; an earlier rule has precedence.
        describe: the report about these intervals (rows of ``context.idle``).
        parts: the intervals by kind, where each kind is a finding of its own.
        view: the report about a device as a whole; None for nothing.
        about_copies: whether copies are what has to change.
        by_kind: whether its idle time is shown by kind, since it has several.
        always: whether it is reported whatever it costs.
    """

    code: str
    name: str
    page: str
    fix: str
    waited_for: str
    change: str | None = None
    not_simulated: str = "what-if has no change for it"
    claims: Callable[[DeviceContext], Bool] = no_claim
    describe: Callable[[DeviceContext, Int64], Report] | None = None
    fixes: tuple[FixFor, ...] = ()
    cuda_fix: str = ""
    parts: Callable[[DeviceContext, Int64], tuple[Int64, ...]] = one_part
    view: Callable[[DeviceContext], Report | None] = no_view
    about_copies: bool = False
    by_kind: bool = False
    always: Callable[[DeviceContext], bool] = lambda _: False
    sections: Mapping[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Split the page into its sections; the fix has the lines for CUDA C++ too."""
        page, following = inspect.cleandoc(self.page), f"\n## {HEADINGS[HEADINGS.index('Fix') + 1]}\n"
        in_cuda = f"\nWithout PyTorch:\n\n```\n{self.cuda_fix}\n```\n" if self.cuda_fix else ""
        object.__setattr__(self, "page", page.replace(following, in_cuda + following, 1))
        parts = re.split(r"^## (.+)$", self.page, flags=re.MULTILINE)
        texts = (text.strip() for text in parts[2::2])
        object.__setattr__(self, "sections", dict(zip(parts[1::2], texts, strict=True)))

    def fix_for(self, place: Place) -> str:
        """The fix that fits a place, as PyTorch code."""
        return next((each.fix for each in self.fixes if each.fits(place)), self.fix)

    def fix_of(self, report: Report, place: Place, *, pytorch: bool) -> str:
        """The fix of a report that fits its place and its program, which uses PyTorch or not."""
        if pytorch:
            return report.fix or self.fix_for(place)
        return report.cuda_fix or self.cuda_fix or self.fix

    @property
    def title(self) -> str:
        """The first line of the page."""
        return self.page.splitlines()[0].rstrip(".")


OUTPUT_SIZE_FIX = FixFor(
    "kept = torch.where(mask, x, 0)  # a result of fixed size; the host must read how many rows x[mask] has\n"
    "# where the rows are needed, select them once, after the loop",
    op="nonzero|masked_select|aten::index|unique|aten::where|repeat_interleave",
)
"""For operators whose result has a size that the host must read from the GPU first."""
D2H_FIX = (
    "place.copy_(result, non_blocking=True)  # place: pinned, made once; on a stream of its own\n"
    "arrived = torch.cuda.Event(); arrived.record()  # arrived.synchronize() before the host reads it"
)
"""PyTorch code that fixes D2H copies."""
D2H_CUDA_FIX = (
    "cudaMemcpyAsync(pinned, result, bytes, cudaMemcpyDeviceToHost, side);\n"
    "cudaEventRecord(arrived, side);  // cudaEventSynchronize(arrived) before the host reads it"
)
"""The same in CUDA C++."""


def mostly_d2h(context: DeviceContext, copies: Int64) -> bool:
    """Whether most bytes of some copies go to the host."""
    table = context.trace.copies
    sizes = np.maximum(table.size_bytes[copies], 0)
    return bool(2 * sizes[table.direction[copies] == Direction.DTOH].sum() > sizes.sum())


def median_or_none(values: Float64) -> float | None:
    """The median of the finite values, to two decimals; None where there are none."""
    known = values[np.isfinite(values)]
    return round(float(np.median(known)), 2) if len(known) else None
