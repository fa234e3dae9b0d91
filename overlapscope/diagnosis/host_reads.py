"""What the host reads values of the GPU for: the sizes of results, or what the program does next."""

from __future__ import annotations

import re
from collections import Counter
from enum import IntEnum

import numpy as np

from overlapscope.measure.grouping import at, last_before, rows_by_thread
from overlapscope.measure.places import enclosing, innermost, named
from overlapscope.model.columns import NO_ID, Bool, Int8, Int64
from overlapscope.model.trace import Trace


class Purpose(IntEnum):
    """What a value is read for, as far as the operators around the read tell."""

    UNKNOWN = 0
    SIZE = 1
    DECISION = 2


NEEDED = {Purpose.SIZE: "knows the sizes of results", Purpose.DECISION: "decides what it does next"}
"""What the program needs a value for, as a clause, by purpose."""

_SIZES = re.compile(
    r"^aten::(nonzero(_numpy)?|argwhere|masked_select|_?unique\w*|repeat_interleave|bincount|one_hot|combinations)$"
)
"""Operators that read how large their result is, whatever encloses them (``index`` and ``where`` call ``nonzero``)."""
_DECIDES = re.compile(r"^aten::(is_nonzero|equal|allclose)$")
"""Operators whose result is a truth value on the host."""
_COMPARES = re.compile(
    r"^aten::(any|all|eq|ne|lt|le|gt|ge|isnan|isinf|isfinite|isclose|logical_(and|or|not|xor)|bitwise_(and|or|not))_?$"
)
"""Operators whose result is a truth value on the GPU."""
_TORCHS = re.compile("^aten::")
_ITEM = re.compile(r"^aten::item$")


def purposes(trace: Trace, copies: Int64) -> Int8:
    """The `Purpose` of each of some copies to the host.

    A single byte is a truth value, and so is what is read right after a comparison.
    """
    calls, row = trace.api_calls, trace.copies.call[copies]
    known = row != NO_ID
    moment = calls.process[row[known]], calls.thread[row[known]], calls.start_ns[row[known]]
    sizes, decides, follows = (np.zeros(len(copies), np.bool_) for _ in range(3))
    sizes[known] = _within(trace, _SIZES, *moment)
    decides[known] = _within(trace, _DECIDES, *moment)
    follows[known] = _after_comparison(trace, *moment)
    decides |= follows | (trace.copies.size_bytes[copies] == 1)
    return np.select([sizes, decides], [Purpose.SIZE, Purpose.DECISION], Purpose.UNKNOWN).astype(np.int8)


def operators(trace: Trace, calls: Int64) -> Counter[str]:
    """The PyTorch operators that made some calls, each by its outermost one, with the number of calls of each."""
    ops, row = trace.cpu_ops, outermost_operator(trace, calls)
    names, count = np.unique(ops.name_id[row[row != NO_ID]], return_counts=True)
    return Counter({trace.names[name]: number for name, number in zip(names.tolist(), count.tolist(), strict=True)})


def outermost_operator(trace: Trace, calls: Int64) -> Int64:
    """The row of the outermost of PyTorch's operators around each call, inside of anything else; `NO_ID` for none."""
    ops, table, outer = trace.cpu_ops, trace.api_calls, enclosing(trace.cpu_ops)
    torchs = np.append(named(ops, _TORCHS), False)
    row = innermost(ops, table.process[calls], table.thread[calls], table.start_ns[calls]).astype(np.int64)
    row[~torchs[row]] = NO_ID
    while (further := torchs[around := at(outer, row)]).any():
        row = np.where(further, around, row)
    return row


def _within(trace: Trace, pattern: re.Pattern[str], process: Int64, thread: Int64, moment_ns: Int64) -> Bool:
    """Which moments of threads are in an operator with a name that matches."""
    ops = trace.cpu_ops.take(named(trace.cpu_ops, pattern))
    inside: Bool = innermost(ops, process, thread, moment_ns) != NO_ID
    return inside


def _after_comparison(trace: Trace, process: Int64, thread: Int64, moment_ns: Int64) -> Bool:
    """Which moments are in an ``item()`` before which the last operator of the thread was a comparison."""
    ops, result = trace.cpu_ops, np.zeros(len(moment_ns), np.bool_)
    items, compares = ops.take(named(ops, _ITEM)), np.append(named(ops, _COMPARES), False)
    item, by_thread = innermost(items, process, thread, moment_ns), rows_by_thread(ops.process, ops.thread)
    for place, asked in rows_by_thread(process, thread).items():
        read = asked[item[asked] != NO_ID]
        rows = by_thread.get(place, read[:0])
        rows = rows[np.lexsort((-ops.start_ns[rows], ops.end_ns[rows]))]  # what encloses others ends last
        result[read] = compares[last_before(rows, ops.end_ns[rows], items.start_ns[item[read]], "right")]
    return result
