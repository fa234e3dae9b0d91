"""What is said about a loop."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FixKind(StrEnum):
    """Where the fix is made."""

    SWITCH = "a switch of the library"
    USE = "another use of the library"
    PATCH = "a patch of the library"


@dataclass(frozen=True)
class Text:
    """What is said about a loop.

    Attributes:
        package: the distribution that the loop is of, as ``pip`` names it.
        title: what the loop does, in a few words.
        does: the loop in one or two sentences, as its user would say it.
        fix: what is changed, in a sentence.
        kind: where the fix is made.
        before: the line of code that matters, as it is.
        after: the same line with the fix.
        changes: the fix as changes of ``what-if``.
    """

    package: str
    title: str
    does: str
    fix: str
    kind: FixKind
    before: str
    after: str
    changes: tuple[str, ...]
