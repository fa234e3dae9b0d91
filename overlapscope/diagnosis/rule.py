"""What a rule is, and how its page is laid out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Confidence, Number
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
"""Every page has these, in this order."""


@dataclass(frozen=True)
class Report:
    """What a rule says of the stretches that are its own.

    ``hazard`` marks wrong results, ``aside`` what is good to know and costs nothing. ``copies``, ``calls`` and
    ``idle_ns`` are for rules that are not about lost stretches; the others get them from these. ``change`` is for rules
    whose change depends on the device, ``fix`` for those whose remedy does.
    """

    message: str
    evidence: Mapping[str, Number]
    confidence: Confidence = Confidence.HIGH
    doubt: str = ""
    hazard: bool = False
    aside: bool = False
    copies: Int64 | None = None
    calls: Int64 | None = None
    idle_ns: int | None = None
    change: str | None = None
    fix: str | None = None


def no_claim(context: DeviceContext) -> Bool:
    """The claim of a rule that is not about lost stretches."""
    return context.nothing


def no_view(context: DeviceContext) -> Report | None:
    """The view of a rule that is about lost stretches only."""
    del context
    return None


@dataclass(frozen=True)
class Rule:
    """One pattern.

    Attributes:
        code: never reused.
        name: the pattern, not the remedy.
        page: its documentation: a title, and the sections of `HEADINGS`.
        fix: code for PyTorch that mends it.
        change: the change of a replay that mends it.
        claims: which lost stretches of a context are its own, if no rule before it has them.
        describe: what to say of them (rows of the losses).
        view: what to say of a context as a whole; None for nothing.
        always: whether it is said whatever it costs.
    """

    code: str
    name: str
    page: str
    fix: str
    change: str | None = None
    claims: Callable[[DeviceContext], Bool] = no_claim
    describe: Callable[[DeviceContext, Int64], Report] | None = None
    view: Callable[[DeviceContext], Report | None] = no_view
    always: Callable[[DeviceContext], bool] = lambda _: False
    sections: Mapping[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Take the page apart."""
        object.__setattr__(self, "page", inspect.cleandoc(self.page))
        parts = re.split(r"^## (.+)$", self.page, flags=re.MULTILINE)
        texts = (text.strip() for text in parts[2::2])
        object.__setattr__(self, "sections", dict(zip(parts[1::2], texts, strict=True)))

    @property
    def title(self) -> str:
        """The first line of its page."""
        return self.page.splitlines()[0].rstrip(".")


DOWN = (
    "place.copy_(result, non_blocking=True)  # place: pinned, made once; on a stream of its own\n"
    "arrived = torch.cuda.Event(); arrived.record()  # arrived.synchronize() before the host reads it"
)
"""What mends copies to the host."""


def mostly_down(context: DeviceContext, copies: Int64) -> bool:
    """Whether most of what some copies move goes to the host."""
    table = context.trace.copies
    sizes = np.maximum(table.size_bytes[copies], 0)
    return bool(2 * sizes[table.direction[copies] == Direction.DTOH].sum() > sizes.sum())


def median_or_none(values: Float64) -> float | None:
    """The median of what is known, to two decimals; None where nothing is."""
    known = values[np.isfinite(values)]
    return round(float(np.median(known)), 2) if len(known) else None
