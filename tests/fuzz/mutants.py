"""Mutants by number: a sample, and what was done to it."""

from __future__ import annotations

import gzip
import json
import random
import sqlite3
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.conftest import CASES, SAMPLES
from tests.fuzz import mutate_bytes, mutate_events, mutate_tables

_SMALL = 18_000  # bytes of a packed sample
_SMALL_UNPACKED = 1_000_000
_MORE = 0.5  # share of mutants to which one more thing was done, again and again


@dataclass(frozen=True)
class Mutant:
    """A file, and the sample of which it was made."""

    name: str
    content: bytes
    sample: Path
    done: tuple[str, ...]

    @property
    def suffix(self) -> str:
        """The ending of its name, which promises nothing."""
        return "." + self.sample.name.split(".", 1)[1]


def samples(*, small: bool = True) -> list[Path]:
    """The samples, in order of their names."""
    everything = sorted([*SAMPLES.glob("*.gz"), *CASES.glob("*.gz")])
    return [path for path in everything if path.stat().st_size < _SMALL or not small]


def traces_in(folder: Path) -> list[Path]:
    """The small traces in a folder and those below it, likewise."""
    files = sorted(path for path in folder.rglob("*") if path.name.endswith((".json", ".sqlite", ".gz")))
    small = (path for path in files if path.stat().st_size < _SMALL_UNPACKED)
    return [path for path in small if 0 < len(_unpacked(path)) < _SMALL_UNPACKED]


def mutant(seed: int, number: int, originals: list[Path]) -> Mutant:
    """The mutant of this seed and number; the same each time."""
    rng = random.Random(f"{seed}:{number}")
    sample = rng.choice(originals)
    content = _unpacked(sample)
    done: list[str] = []
    content = (_database if content.startswith(b"SQLite") else _kineto)(rng, content, done)
    if rng.random() < 0.02:
        content = mutate_bytes.blown_up(rng, content)
        done.append("blown_up")
    if rng.random() < 0.2:
        content = gzip.compress(content, 1, mtime=0)
        if rng.random() < 0.5 and content:
            content = _bytes(rng, content, done, mutate_bytes.BINARY)
    return Mutant(f"{seed}:{number}", content, sample, tuple(done))


@lru_cache(maxsize=8)
def _unpacked(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def _kineto(rng: random.Random, content: bytes, done: list[str]) -> bytes:
    if rng.random() < 0.4:
        return _bytes(rng, content, done, mutate_bytes.TEXT)
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if not isinstance(document, dict) or not document.get("traceEvents"):
        return _bytes(rng, content, done, mutate_bytes.TEXT)
    _each(rng, document, done, mutate_events.MUTATIONS)
    content = json.dumps(document, indent=rng.choice((None, 1))).encode()
    return _bytes(rng, content, done, mutate_bytes.TEXT) if rng.random() < 0.1 else content


def _database(rng: random.Random, content: bytes, done: list[str]) -> bytes:
    if rng.random() < 0.25:
        return _bytes(rng, content, done, mutate_bytes.BINARY)
    database = sqlite3.connect(":memory:")
    database.deserialize(content)
    _each(rng, database, done, mutate_tables.MUTATIONS)
    if rng.random() < 0.04:
        database = mutate_tables.in_utf_16(database)
    database.commit()
    content = database.serialize()
    return mutate_tables.page_damaged(rng, content) if rng.random() < 0.1 else content


def _bytes(rng: random.Random, content: bytes, done: list[str], mutations: Any) -> bytes:
    while content:
        mutation = rng.choice(mutations)
        content = mutation(rng, content)
        done.append(mutation.__name__)
        if rng.random() > _MORE:
            break
    return content


def _each(rng: random.Random, target: Any, done: list[str], mutations: Any) -> None:
    while True:
        mutation = rng.choice(mutations)
        try:
            mutation(rng, target)
            done.append(mutation.__name__)
        except sqlite3.Error:
            done.append(f"not {mutation.__name__}")
        if rng.random() > _MORE:
            return
