"""``overlapscope cache``: show the traces that are kept opened, or remove them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overlapscope.cli.messages import complaining
from overlapscope.cli.options import Debug
from overlapscope.cli.output import deliver
from overlapscope.errors import OutputError
from overlapscope.formatting import counted, safe, size

if TYPE_CHECKING:
    from overlapscope.cache.store import Entry, Store

_HOURS_OF_A_DAY = 24
_NAME_WIDTH = 48


def cache_command(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all of them.")] = False,
    debug: Debug = False,
) -> None:
    """Show the opened traces that the cache folder has, the last used first, or remove them.

    A trace that takes longer than half a second to read is kept there as an Arrow file, and opens from it while its
    content is the same. The folder is that of the user, or the one in OVERLAPSCOPE_CACHE; "off" there switches it off.
    """
    from overlapscope.cache.folder import cache_folder
    from overlapscope.cache.store import Store

    with complaining(debug=debug):
        folder = cache_folder()
        if folder is None:
            deliver("off: OVERLAPSCOPE_CACHE says so, or there is no home folder\n", None)
            return
        store = Store(folder)
        deliver(f"{_cleared(store) if clear else _shown(store)}\n", None)


def _cleared(store: Store) -> str:
    entries = store.entries()
    try:
        store.clear()
    except OSError as error:
        raise OutputError(f"{store.folder}: cannot be cleared ({error.strerror or error})") from error
    return f"{safe(str(store.folder))}: {counted(len(entries), 'trace')} removed, {_total(entries)}"


def _shown(store: Store) -> str:
    entries = store.entries()
    head = f"{safe(str(store.folder))}: {counted(len(entries), 'trace')}, {_total(entries)} of at most "
    return "\n".join([f"{head}{size(store.config.most_bytes)}", *map(_line, entries)])


def _line(entry: Entry) -> str:
    name = safe(Path(entry.source).name, _NAME_WIDTH)
    old = "" if entry.of_this_version else "  of another version"
    return f"  {size(entry.size_bytes):>10}  used {_ago(time.time() - entry.used_s):<12}  {name}{old}"


def _total(entries: list[Entry]) -> str:
    return size(sum(entry.size_bytes for entry in entries))


def _ago(seconds: float) -> str:
    hours = int(seconds // 3600)
    if hours < 1:
        return "this hour"
    return f"{hours} h ago" if hours < _HOURS_OF_A_DAY else f"{hours // _HOURS_OF_A_DAY} d ago"
