"""`Rule`: a pattern that idle intervals or a device can match, and its page of documentation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType

import numpy as np

from overlapscope.diagnosis.causes import Lateness
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Bound, Confidence, Number, Place, Ran
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
    """The report of a rule about its idle intervals, or about a device.

    ``confirm_with`` names what would raise the confidence, and is empty where that is high; a suspicion has low
    confidence. ``hazard`` marks wrong results, ``informational`` what costs nothing or happens once. ``kind`` names the
    kind, where a rule has several. Rules about idle intervals leave ``copies``, ``calls`` and ``idle_ns`` out: these
    come from the intervals. ``change``, ``fix`` and ``cuda_fix`` replace those of the rule where they depend on the
    device, ``other_fix`` only where no fix of the rule is for the place.
    """

    message: str
    evidence: Mapping[str, Number]
    confirm_with: str = ""
    suspicion: bool = False
    hazard: bool = False
    informational: bool = False
    copies: Int64 | None = None
    calls: Int64 | None = None
    idle_ns: int | None = None
    change: str | None = None
    fix: str | None = None
    cuda_fix: str | None = None
    other_fix: str | None = None
    kind: str | None = None
    waited_for: str | None = None
    ran: tuple[Ran, ...] = ()
    bound: Bound | None = None

    @property
    def confidence(self) -> Confidence:
        """How certain the report is."""
        if not self.confirm_with:
            return Confidence.HIGH
        return Confidence.LOW if self.suspicion else Confidence.MEDIUM


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

    A module of a rule assigns ``RULE`` and defines the functions that the rule needs, by the names of these fields;
    `Rule.of` adds them, and code, name and page, which the module's name and docstring say.

    Attributes:
        fix: PyTorch code that fixes it.
        waited_for: what the GPU waits for, as a noun: ``pageable copies``.
        fixes: fixes for some places, which are better there.
        cuda_fix: CUDA C++ code that fixes it, for programs without a sign of PyTorch; empty where ``fix`` fits any.
        look: colour of its idle time on timelines, on a light and a dark ground (empty: the same), grey, and hatch.
        kind_looks: looks of kinds with another colour.
        change: the change that simulates the fix.
        not_simulated: where there is none, why.
        about_copies: whether copies are what has to change.
        code: its code, such as ``OVL001``; never reused.
        name: name of the pattern, not of the remedy.
        page: its documentation: a title, and the sections of `HEADINGS`.
        claims: which idle intervals of a device match it; an earlier rule has precedence.
        describe: the report about these intervals (rows of ``context.idle``).
        parts: the intervals by kind, where each kind is a finding of its own.
        view: the report about a device as a whole; None for nothing.
        always: whether it is reported whatever it costs.
    """

    fix: str
    waited_for: str
    fixes: tuple[FixFor, ...] = ()
    cuda_fix: str = ""
    look: tuple[str, ...] = ()
    kind_looks: Mapping[Lateness, tuple[str, ...]] = field(default_factory=dict)
    change: str | None = None
    not_simulated: str = "what-if has no change for it"
    about_copies: bool = False
    code: str = ""
    name: str = ""
    page: str = ""
    claims: Callable[[DeviceContext], Bool] = lambda context: context.none
    describe: Callable[[DeviceContext, Int64], Report] | None = None
    parts: Callable[[DeviceContext, Int64], tuple[Int64, ...]] | None = None
    view: Callable[[DeviceContext], Report | None] = lambda _: None
    always: Callable[[DeviceContext], bool] = lambda _: False

    @classmethod
    def of(cls, module: ModuleType) -> Rule:
        """The rule of a module, complete; the section about the fix has the lines for CUDA C++ too."""
        rule: Rule = module.RULE
        code, name = module.__name__.rpartition(".")[2].split("_", 1)
        following = f"\n## {HEADINGS[HEADINGS.index('Fix') + 1]}\n"
        in_cuda = f"\nWithout PyTorch:\n\n```\n{rule.cuda_fix}\n```\n" if rule.cuda_fix else ""
        page = inspect.cleandoc(module.__doc__ or "").replace(following, in_cuda + following, 1)
        functions = {entry: value for entry, value in vars(module).items() if entry in _FUNCTIONS}
        return replace(rule, code=code.upper(), name=name.replace("_", "-"), page=page, **functions)

    def fix_for(self, place: Place, otherwise: str | None = None) -> str:
        """The fix that fits a place, as PyTorch code; ``otherwise`` where the rule has none for it."""
        return next((each.fix for each in self.fixes if each.fits(place)), otherwise or self.fix)

    def fix_of(self, report: Report, place: Place, *, pytorch: bool) -> str:
        """The fix of a report that fits its place and its program, which uses PyTorch or not."""
        if pytorch:
            return report.fix or self.fix_for(place, report.other_fix)
        return report.cuda_fix or self.cuda_fix or self.fix

    @property
    def by_kind(self) -> bool:
        """Whether its idle time is shown by kind, since it has several."""
        return self.parts is not None

    @property
    def title(self) -> str:
        """The first line of the page."""
        return self.page.splitlines()[0].rstrip(".")

    @property
    def sections(self) -> dict[str, str]:
        """The sections of the page by their headings."""
        _, *parts = re.split(r"^## (.+)$", self.page, flags=re.MULTILINE)
        return {heading: text.strip() for heading, text in zip(parts[::2], parts[1::2], strict=True)}


_FUNCTIONS = ("claims", "describe", "parts", "view", "always")
OUTPUT_SIZE_FIX = FixFor(
    "kept = torch.where(mask, x, 0)  # a result of fixed size; the host must read how many rows x[mask] has\n"
    "# where the rows are needed, select them once, after the loop",
    op="nonzero|masked_select|aten::index|unique|aten::where|repeat_interleave",
)
"""For operators whose result has a size that the host must read from the GPU first."""
D2H_FIX = (
    "side.wait_stream(torch.cuda.current_stream())  # the result is complete\n"
    "with torch.cuda.stream(side):\n"
    "    place.copy_(result, non_blocking=True)  # place: pinned, made once\n"
    "    arrived = side.record_event()  # arrived.synchronize() before the host reads it\n"
    "result.record_stream(side)  # so that its memory is not reused before it has left"
)
"""PyTorch code that fixes D2H copies."""
D2H_CUDA_FIX = (
    "cudaStreamWaitEvent(side, complete);  // recorded after the kernels that write the result\n"
    "cudaMemcpyAsync(pinned, result, bytes, cudaMemcpyDeviceToHost, side);\n"
    "cudaEventRecord(arrived, side);  // cudaEventSynchronize(arrived) before the host reads it,\n"
    "cudaStreamWaitEvent(stream, arrived);  // and this before a kernel overwrites the result"
)
"""CUDA C++ code that fixes D2H copies."""


def with_d2h_fix(
    report: Report, context: DeviceContext, copies: Int64, fix: str = D2H_FIX, cuda_fix: str = D2H_CUDA_FIX
) -> Report:
    """The report, with a fix for D2H copies where most bytes of the copies go to the host."""
    down = copies[context.trace.copies.direction[copies] == Direction.DTOH]
    return (
        replace(report, fix=fix, cuda_fix=cuda_fix)
        if 2 * context.size_bytes(down) > context.size_bytes(copies)
        else report
    )


def median_or_none(values: Float64) -> float | None:
    """The median of the finite values, to two decimals; None where there are none."""
    known = values[np.isfinite(values)]
    return round(float(np.median(known)), 2) if len(known) else None
