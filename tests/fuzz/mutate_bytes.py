"""Mutations of the bytes of a file, whatever it is."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable

from tests.fuzz import odd

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_VALUE = re.compile(rb'(?<=": )(?:"[^"]*"|[^\s,{}\[\]]+)|(?<=":)(?:"[^"]*"|[^\s,{}\[\]"]+)')
_KEY = re.compile(rb'(?<=[{,])\s*"[^"\\]{1,30}"\s*:')
_LONGEST = 5000


def flipped(rng: random.Random, data: bytes) -> bytes:
    """A few bytes are others."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def cut(rng: random.Random, data: bytes) -> bytes:
    """The end is missing."""
    return data[: rng.randrange(len(data))]


def lacking(rng: random.Random, data: bytes) -> bytes:
    """A part is missing."""
    start, stop = _part(rng, data)
    return data[:start] + data[stop:]


def repeated(rng: random.Random, data: bytes) -> bytes:
    """A part is there twice, the second time anywhere."""
    start, stop = _part(rng, data)
    place = rng.choice((stop, rng.randrange(len(data))))
    return data[:place] + data[start:stop] + data[place:]


def with_token(rng: random.Random, data: bytes) -> bytes:
    """A token that belongs elsewhere is put in."""
    place = rng.randrange(len(data))
    token = rng.choice(odd.TOKENS).encode("utf-8", "surrogatepass")
    return data[:place] + token + data[place + rng.choice((0, 0, len(token))) :]


def with_number(rng: random.Random, data: bytes) -> bytes:
    """A number is another one, or none."""
    return _replaced(rng, data, _NUMBER)


def with_value(rng: random.Random, data: bytes) -> bytes:
    """The value of a key is another one."""
    return _replaced(rng, data, _VALUE)


def with_tail(rng: random.Random, data: bytes) -> bytes:
    """Something follows the file."""
    return data + rng.choice((b"\0" * 64, b"junk", data[: rng.randrange(len(data))], gzip.compress(b"{}"), b"]}"))


def with_many(rng: random.Random, data: bytes) -> bytes:
    """One or two tokens are there very often."""
    place = rng.randrange(len(data))
    tokens = "".join(rng.choices((*odd.TOKENS, '{"ph":"X"', " ", "{},"), k=rng.randint(1, 2)))
    return data[:place] + tokens.encode("utf-8", "surrogatepass") * rng.choice((100, 10_000, 30_000)) + data[place:]


def with_key_again(rng: random.Random, data: bytes) -> bytes:
    """A key is there twice in its object, with another value."""
    found = _KEY.search(data, rng.randrange(len(data))) or _KEY.search(data)
    if found is None:
        return data
    key = found[0] + str(rng.choice((*odd.NUMBERS, '"x"', "[]", "{}"))).encode() + b","
    return data[: found.start()] + key * rng.choice((1, 1, 1000)) + data[found.start() :]


def nested(rng: random.Random, data: bytes) -> bytes:
    """A value is that of a list, or of an object, in very many others."""
    found = _VALUE.search(data, rng.randrange(len(data))) or _VALUE.search(data)
    if found is None:
        return data
    start, stop = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
    depth = rng.choice((2, 20, 400, 1200, 100_000))
    return data[: found.start()] + start * depth + found[0] + stop * depth + data[found.end() :]


def blown_up(rng: random.Random, data: bytes) -> bytes:
    """Something that packs well is put in, 20 MB of it."""
    place = rng.choice((0, data.find(b"[") + 1, data.find(b'"') + 1, rng.randrange(len(data)), len(data)))
    return data[:place] + rng.choice((b" ", b"a", b"0", b"[", b"\0", b"{},", b'"a",')) * 20_000_000 + data[place:]


TEXT: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    flipped, cut, lacking, repeated, with_token, with_token, with_number, with_number, with_value, with_value,
    with_tail, with_many, with_key_again, nested,
)  # fmt: skip
BINARY: tuple[Callable[[random.Random, bytes], bytes], ...] = (flipped, flipped, cut, lacking, with_tail)


def _part(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data))
    return start, min(len(data), start + rng.randint(1, rng.choice((4, 40, 400, _LONGEST))))


def _replaced(rng: random.Random, data: bytes, pattern: re.Pattern[bytes]) -> bytes:
    found = pattern.search(data, rng.randrange(len(data))) or pattern.search(data)
    if found is None:
        return data
    token = rng.choice((*odd.TOKENS, *map(str, odd.NUMBERS))).encode("utf-8", "surrogatepass")
    return data[: found.start()] + token + data[found.end() :]
