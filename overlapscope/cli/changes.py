"""Names of changes on the command line: their help, their completion, and old names."""

from __future__ import annotations

import re

from overlapscope.cli.messages import say

NAMES = (
    "pin", "pin-ahead", "batch-copies", "no-scalar-sync", "non-blocking", "no-device-sync", "preallocate",
    "faster-link", "side-stream", "prefetch", "cuda-graph", "copy-first",
)  # fmt: skip
"""Of all changes, as in their catalogue, which takes time to load."""
CHANGES_HELP = (
    f"{', '.join(NAMES)}; =N for prefetch and faster-link (GB/s); :within=NAME,stream=N,source=TEXT limits it."
)
_BETWEEN = re.compile(r",(?!\s*(?:within|range|stream|source)\s*=)")  # a comma that does not go on with a place


def split_changes(text: str) -> list[str]:
    """Several changes in one text.

    >>> split_changes("pin:within=copy,stream=7,prefetch=2")
    ['pin:within=copy,stream=7', 'prefetch=2']
    """
    return _BETWEEN.split(text)


def complete_change(begun: str) -> list[str]:
    """Names of changes that begin like this, for shell completion."""
    return [name for name in NAMES if name.startswith(begun)]


def note_old_name(text: str, *, quiet: bool) -> None:
    """Say what a change is called now, where it was asked for by an old name."""
    from overlapscope.whatif.catalogue import change_of

    name = text.partition(":")[0].partition("=")[0].strip()
    kind = change_of(name)
    if kind is not None and kind.name != name:
        say(f"{name} is called {kind.name} now; the old name is still accepted", quiet=quiet)
    if ":range=" in text or ",range=" in text:
        say("range= is called within= now; the old name is still accepted", quiet=quiet)
