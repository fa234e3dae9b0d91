"""Names as they may be published: without the folders they come from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

HIDDEN = "***"
_PART = r"[^/\\\s:()\"'<>|]+"
_PATH = re.compile(rf"(?<![\w.~/])/(?:{_PART}/)*{_PART}|\b[A-Za-z]:\\(?:{_PART}\\)*{_PART}")
_LIBRARY = re.compile(r".*[/\\](?:site-packages|dist-packages|lib[/\\]python[\d.]+)[/\\]")


@dataclass(frozen=True)
class Hiding:
    """What to take out of texts: the folders of absolute paths, and words given by name.

    Inside a Python library the folders stay: they are the same everywhere, and tell what a line does.
    """

    words: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.words:
            longest_first = sorted(map(re.escape, self.words), key=len, reverse=True)
            object.__setattr__(self, "pattern", re.compile("|".join(longest_first), re.IGNORECASE))

    @classmethod
    def of(cls, words: Sequence[str]) -> Hiding:
        """Hide these texts wherever they stand, in any case; empty ones hide nothing."""
        return cls(tuple(word for word in words if word))

    def __call__(self, text: str) -> str:
        """The text as it may be published.

        >>> Hiding.of(["alice"])("/home/alice/secret/net/train.py(12): Alice_step")
        'train.py(12): ***_step'
        >>> Hiding()("epoch 1/10")
        'epoch 1/10'
        """
        if "/" in text or ":\\" in text:
            text = _PATH.sub(_without_folders, text)
        return self.pattern.sub(HIDDEN, text) if self.pattern else text


def _without_folders(path: re.Match[str]) -> str:
    inside = _LIBRARY.sub("", path[0])
    return inside if inside != path[0] else re.split(r"[/\\]", path[0])[-1]
