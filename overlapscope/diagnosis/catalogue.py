"""The catalogue of all rules, and their precedence. Codes are never reused."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from overlapscope.diagnosis import rules
from overlapscope.diagnosis.rule import Rule

RULES = tuple(Rule.of(import_module(f"{rules.__name__}.{module.name}")) for module in iter_modules(rules.__path__))
"""All rules, in the order of their codes. Each has a file, which is named after it: its code, and its name."""

CODES = tuple(rule.code for rule in RULES)
"""The codes of the rules, in order; reasons of idle intervals are indices into them."""

MOVED = {"OVL014": "OVL103", "OVL022": "OVL105"}
"""Codes that rules had before, and the codes that they have now."""

_PRECEDENCE = (
    *("000", "012", "020", "010", "005", "001", "013", "018", "009", "019", "007"),
    *("004", "003", "002", "006", "011", "017", "008"),
)
"""The order in which rules get an idle interval that several claim. Missing data comes first, then what explains a
whole sequence of calls, then specific causes before general ones; a late host is the last."""


def rule(code: str) -> Rule:
    """The rule with a code, in upper or lower case, or with a name; a code that it had before is understood too.

    Raises:
        KeyError: there is none.
    """
    named = {key: entry for entry in RULES for key in (entry.code, entry.name.upper())}
    return named[MOVED.get(code.upper(), code.upper())]


CLAIMING = tuple(rule(f"OVL{number}") for number in _PRECEDENCE)
"""Rules about idle intervals, in the order in which they may claim one."""
