"""Scrub texts: remove folders, accounts, secrets and given words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

HIDDEN = "***"
_PART = r"[^/\\\s:()\"'<>|,;=]+"
_ROOT = r"(?:file:/{1,3}|//?|~[\w.-]*/|(?:\.\./)+|[A-Za-z]:[\\/]|\\\\)"
_PATH = re.compile(rf"(?<![\w.:/\\~]){_ROOT}(?:{_PART}[/\\])*{_PART}|(?<=[=:]){_ROOT}(?:{_PART}[/\\])*{_PART}")
_FRAME = re.compile(rf"^{_ROOT}.*[/\\](?=[^/\\]+\(\d+\): )")  # a file of a call stack; its folders may hold spaces
_LIBRARY = re.compile(r".*[/\\](?:site-packages|dist-packages|lib[/\\]python[\d.]+)[/\\]")
_HOME = re.compile(r"/(?:home|users)/[^/]+/?$", re.IGNORECASE)
_SECRET = re.compile(r"\b([\w-]*(?:token|secret|passw(?:or)?d|api_?key|credential)[\w-]*\s*[=:]\s*)\S+", re.IGNORECASE)
_ACCOUNT = re.compile(r"\b[\w.+-]+@[\w.-]+")


@dataclass(frozen=True)
class Hiding:
    """The rules of hiding: folders of paths, accounts (``user@host``), values of secrets, and given words.

    Folders inside a Python library stay: they are the same everywhere, and show what a line does.
    """

    words: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.words:
            longest_first = sorted(map(re.escape, self.words), key=len, reverse=True)
            object.__setattr__(self, "pattern", re.compile("|".join(longest_first), re.IGNORECASE))

    @classmethod
    def of(cls, words: Sequence[str]) -> Hiding:
        """Hide these words anywhere, in upper or lower case; empty ones are ignored."""
        return cls(tuple(word for word in words if word))

    def __call__(self, text: str) -> str:
        """The scrubbed text.

        >>> Hiding.of(["alice"])("/home/alice/secret/net/train.py(12): Alice_step")
        'train.py(12): ***_step'
        >>> Hiding()("epoch 1/10")
        'epoch 1/10'
        """
        if "=" in text or ":" in text:
            text = _SECRET.sub(rf"\1{HIDDEN}", text)
        if "@" in text:
            text = _ACCOUNT.sub(HIDDEN, text)
        if "/" in text or "\\" in text:
            frame = _FRAME.match(text)
            text = (
                _PATH.sub(_without_folders, text) if frame is None else _inside_library(frame[0]) + text[frame.end() :]
            )
        return self.pattern.sub(HIDDEN, text) if self.pattern else text

    def command(self, text: str) -> str:
        """The scrubbed name of a process or thread; of a command line, only the program."""
        words = text.split()
        if not any(word.startswith("-") or "=" in word for word in words):
            return self(text)
        return HIDDEN if "=" in words[0] else self(words[0])


def _without_folders(path: re.Match[str]) -> str:
    if _HOME.search(path[0]):
        return "~"
    inside = _inside_library(path[0])
    return inside or re.split(r"[/\\]", path[0])[-1]


def _inside_library(path: str) -> str:
    """The part of a path within a library; empty outside of any."""
    inside = _LIBRARY.sub("", path)
    return inside if inside != path else ""
