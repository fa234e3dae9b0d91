"""Odd values, as broken programs and hostile people write them."""

from __future__ import annotations

import random
from typing import Any

NUMBERS: tuple[Any, ...] = (
    -1, 0, 1, 2, 7, -5, 0.5, -0.25, 127, 128, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**43, 2**53 + 1,
    2**62, 2**63 - 1, 2**63 - 1000, -(2**63), 2**63, 2**64 - 1, 10**14, 10**16, 4 * 10**15, 2 * 10**18, 1e18, 1e300,
    -1e300, 5e-324, float("nan"), float("inf"), float("-inf"), 10**30, -(10**30),
)  # fmt: skip
TEXTS = (
    "", " ", "7", "-7", "stream 7", "0x10", "1e999999999", "nan", "null", "\x1b[31m", "<script>", "a" * 5000, "\ud800",
    "ProfilerStep#1", "ProfilerStep#99999999999999999999", "nccl", "\n", "../../etc/passwd", "/home/alice/x.py(3): f",
    "=1+1", "\u202e", "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)", "cudaMemcpyAsync", "$x^2$",
)  # fmt: skip
HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J", "<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "\u202egnp.exe",
    "a\r\n::error::b", "@everyone `x` | [a](javascript:alert(1))", "]]>", "&lt;", "=cmd|' /C calc'!A0", "\x9b31m",
    "{0.__class__}", "%s%n", "[bold red]x[/]", "[/]", "$\\frac{", "../../../tmp/x", "\u2028", "\ufeff", "\x00",
)  # fmt: skip
"""Texts that mean something to a terminal, a page, a table, a figure or a file system."""
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [1], [1, "2", None], {"a": 1}, [[[]]], [2**40, 2**40, 2**40])
TOKENS = (
    "1e999999999", "-1e999999999", "1" * 400, "nan", "-nan(ind)", "inf(c)", "Infinity", "0x1f", "null", "true", "[]",
    "{}", '""', "\\", '"', ",", "{", "}", "[", "]", ":", "\x00", "\ufffd", "]}", "},{", '"traceEvents":[', "-", "1e",
)  # fmt: skip


def value(rng: random.Random) -> Any:
    """Any odd value, mostly a number."""
    return rng.choice(rng.choice((NUMBERS, NUMBERS, NUMBERS, (*TEXTS, *HOSTILE), OTHERS)))


def time_shift(rng: random.Random) -> int:
    """A distance in ns, from less than one event to decades."""
    return rng.choice((1, -1)) * rng.choice((1, 10**3, 10**6, 10**9, 10**12, 10**14, 10**16, 10**18, 2 * 10**18, 2**62))
