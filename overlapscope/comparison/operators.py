"""Which operator the host spends more or less time in."""

from __future__ import annotations

from collections import Counter

import numpy as np

from overlapscope.measure.host import sums_by
from overlapscope.measure.places import enclosing, innermost
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool
from overlapscope.model.trace import Trace

_MOST = 0.5  # of the difference: less than half of it is not what it is about


def operator_behind(before: Trace, after: Trace, windows: tuple[Window, Window], saved_ns: float) -> str | None:
    """The operator whose host time differs most, where that is at least half of some time saved; None without one."""
    took = [_host_ns(trace, window) for trace, window in zip((before, after), windows, strict=True)]
    saved = {name: (took[0][name] - took[1][name]) * np.sign(saved_ns) for name in took[0].keys() | took[1].keys()}
    name = max(sorted(saved), key=lambda each: saved[each], default=None)
    return name if name is not None and saved[name] >= _MOST * abs(saved_ns) > 0 else None


def _host_ns(trace: Trace, window: Window) -> Counter[str]:
    """The time in outermost operators of each name on threads that issue work, without the CUDA calls in them."""
    calls, operators = trace.api_calls, trace.cpu_ops
    operators = operators.take(_on_issuing_threads(trace))
    if not len(operators):
        return Counter()
    own, around = operators.duration_ns.copy(), enclosing(operators)
    inside = innermost(operators, calls.process, calls.thread, calls.start_ns)
    outer = np.append(np.where(around == NO_ID, np.arange(len(operators)), around), NO_ID)
    while (outer != outer[outer]).any():
        outer = outer[outer]
    mine = (inside != NO_ID) & (calls.parent == NO_ID)
    np.subtract.at(own, outer[inside[mine]], calls.duration_ns[mine])
    there = window.touches(operators.process, operators.start_ns, operators.end_ns) & (around == NO_ID)
    names, member = np.unique(operators.name_id, return_inverse=True)
    total = sums_by(member.reshape(-1), np.where(there, own, 0), len(names)).tolist()
    return Counter({trace.names[number]: took for number, took in zip(names.tolist(), total, strict=True)})


def _on_issuing_threads(trace: Trace) -> Bool:
    """Which operators are on threads that issue device work; those of other threads delay nothing."""
    calls, operators = trace.api_calls, trace.cpu_ops
    issuing = np.unique(np.concatenate([table.call[table.call != NO_ID] for table in trace.device_work]))
    threads = set(zip(calls.process[issuing].tolist(), calls.thread[issuing].tolist(), strict=True))
    mine = np.zeros(len(operators), np.bool_)
    for process, thread in threads:
        mine |= (operators.process == process) & (operators.thread == thread)
    return mine
