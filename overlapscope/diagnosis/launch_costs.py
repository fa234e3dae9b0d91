"""The operators that cost the host most for what they launch, and what PyTorch has instead of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from overlapscope.diagnosis.host_reads import outermost_operator
from overlapscope.formatting import counted, safe, time
from overlapscope.measure.grouping import each_value, sums_by
from overlapscope.measure.places import innermost
from overlapscope.model.columns import NO_ID, Int32, Int64
from overlapscope.model.enums import LAUNCHES
from overlapscope.model.tables import HostWork
from overlapscope.model.trace import Trace
from overlapscope.whatif.changes.fused_optimizer import LOOP_LAUNCHES, FusedOptimizer, optimizer_steps


@dataclass(frozen=True)
class Cost:
    """All calls of one operator, or steps of one optimizer, with their launches and their time on the host in ns."""

    name: str
    calls: int
    launches: int
    host_ns: int

    def __str__(self) -> str:
        """The operator with its calls, their launches and the time of each."""
        each = time(self.host_ns / self.launches)
        of = f"{counted(self.calls, 'call')}, {counted(self.launches, 'launch', 'launches')}"
        return f"{safe(self.name)} ({of}, {each} each)"


@dataclass(frozen=True)
class Answer:
    """What PyTorch has for an operator that launches many kernels: as code, when it does, and where that is written."""

    operator: re.Pattern[str]
    least_launches: int
    fix: str
    condition: str
    source: str
    change: str | None = None


ANSWERS = (
    Answer(
        re.compile(r"^Optimizer\.step#"),
        LOOP_LAUNCHES,
        "optimizer = torch.optim.AdamW(parameters, fused=True)  # or foreach=True: few kernels for all parameters",
        "the parameters are floating-point tensors on GPUs",
        "https://docs.pytorch.org/docs/stable/optim.html",
        FusedOptimizer.name,
    ),
    Answer(
        re.compile(r"^aten::(linalg_vector_norm|norm)$"),
        1,
        "torch.nn.utils.clip_grad_norm_(parameters, max_norm, foreach=True)  # few kernels for all gradients",
        "the norms are of many gradients",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html",
    ),
)
"""The operators' table; what none of its rows is about is `torch.compile`'s, or needs bigger batches."""


def costs(trace: Trace, launches: Int64 | Int32) -> list[Cost]:
    """The operators around some launches, those that take most of the host's time first.

    Launches in the step of an optimizer count there (`torch.optim.Optimizer` names the range), not for its operators.
    """
    steps = optimizer_steps(trace)
    every = np.flatnonzero(np.isin(trace.api_calls.kind, LAUNCHES) & (trace.api_calls.parent == NO_ID))
    launches = launches.astype(np.int64)
    step, of_step = (_around(trace, steps, calls) for calls in (launches, every))
    operator, of_operator = outermost_operator(trace, launches[step == NO_ID]), outermost_operator(trace, every)
    of_operator[of_step != NO_ID] = NO_ID
    found = [*_sums(steps, step, of_step), *_sums(trace.cpu_ops, operator, of_operator)]
    return sorted(found, key=lambda cost: -cost.host_ns)


def answer(cost: Cost) -> Answer | None:
    """What PyTorch has instead of an operator; None where the table has nothing."""
    fits = (each for each in ANSWERS if each.operator.search(cost.name))
    return next((each for each in fits if cost.launches >= each.least_launches * cost.calls), None)


def _around(trace: Trace, steps: HostWork, calls: Int64) -> Int64:
    table = trace.api_calls
    return innermost(steps, table.process[calls], table.thread[calls], table.start_ns[calls]).astype(np.int64)


def _sums(table: HostWork, wanted: Int64, every: Int64) -> Iterator[Cost]:
    """The rows of a table around wanted launches, by name; ``every`` has the row around each launch of the trace."""
    rows = np.unique(wanted[wanted != NO_ID])
    launched = np.bincount(every[every != NO_ID], minlength=len(table))
    names, member = np.unique(table.name_id[rows], return_inverse=True)
    host = sums_by(member, table.duration_ns[rows], len(names))
    for number, places in each_value(member):
        launches = int(launched[rows[places]].sum())
        yield Cost(table.names[int(names[number])], len(places), launches, int(host[number]))
