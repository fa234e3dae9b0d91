"""Run mutants, each in a process of its own that may take only so much time and memory."""

from __future__ import annotations

import json
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from tests.fuzz.mutants import Mutant
from tests.fuzz.uses import Found, Place, Use, uses

_LOADED = tuple(
    f"overlapscope.{name}" for name in ("cli", "comparison", "export", "fleet", "html", "plot", "report", "scrub")
)
_MEMORY = 4 << 30
_LONGEST_S = 120.0  # of wall time in one use, when a process is ended
_BASE_S = 6.0
_S_PER_MB = 40.0  # of CPU time in one use, per megabyte of what was unpacked: ten times what samples take


@dataclass(frozen=True)
class Find:
    """What went wrong, and for whom."""

    mutant: str
    use: str
    what: str
    where: str

    def __str__(self) -> str:
        return f"{self.mutant} {self.use}: {self.what}"


def warm_up() -> None:
    """Load what commands load when they run, once for all processes of mutants."""
    for name in _LOADED:
        for module in walk_packages(import_module(name).__path__, f"{name}."):
            import_module(module.name)
    for name in ("matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "pyarrow.parquet", "rich.table"):
        import_module(name)


def run(mutant: Mutant, other: Mutant, share: float, keep: Path | None = None) -> list[Find]:
    """Put a mutant, with another one beside it, to a share of all uses, and say what went wrong."""
    rng = random.Random(mutant.name)
    chosen = [use for use in uses() if rng.random() < share]
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _child(mutant, other, chosen, rng, writing)
    os.close(writing)
    finds = list(_watched(mutant, child, reading))
    if finds and keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        for each in (mutant, other):
            (keep / (each.name.replace(":", "-") + each.suffix.removesuffix(".gz"))).write_bytes(each.content)
    return finds


def _child(mutant: Mutant, other: Mutant, chosen: list[Use], rng: random.Random, pipe: int) -> None:
    try:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        warnings.simplefilter("error")
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            os.chdir(folder)
            path, second = Path(folder) / "traces" / f"mutant{mutant.suffix}", Path(folder) / f"other{other.suffix}"
            path.parent.mkdir()
            path.write_bytes(mutant.content)
            second.write_bytes(other.content)
            (path.parent / f"rank1{other.suffix}").symlink_to(second)
            allowed = _BASE_S + _S_PER_MB * (_size(mutant) + _size(other)) / 1e6
            for use in chosen:
                _tell(pipe, {"begins": use.name})
                here = Path(folder) / use.name.replace(" ", "_")
                here.mkdir()
                for found in _tried(use, Place(path, second, mutant.sample, here, rng), allowed):
                    _tell(pipe, found)
        _tell(pipe, {"ends": True})
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _tried(use: Use, place: Place, allowed: float) -> Iterator[dict[str, str]]:
    before = time.process_time()
    try:
        use.run(place)
    except Found as found:
        cause = found.__cause__
        yield _described(found, cause) if cause is not None else {"what": str(found), "where": str(found)[:80]}
    except (Exception, SystemExit) as error:
        yield _described(error, error)
    taken = time.process_time() - before
    if taken > allowed:
        yield {"what": f"took {taken:.1f} s of CPU time, {allowed:.1f} allowed", "where": "time"}


def _described(found: BaseException, cause: BaseException) -> dict[str, str]:
    frames = traceback.extract_tb(cause.__traceback__)
    ours = [frame for frame in frames if "/overlapscope/" in frame.filename] or frames[-1:]
    last = ours[-1] if ours else None
    where = f"{type(cause).__name__} {Path(last.filename).name}:{last.lineno}" if last else type(cause).__name__
    return {"what": f"{type(cause).__name__}: {str(cause)[:200]} [{where}] ({str(found)[:200]})", "where": where}


def _size(mutant: Mutant) -> int:
    """Bytes of the content, unpacked as far as it can be."""
    if not mutant.content.startswith(b"\x1f\x8b"):
        return len(mutant.content)
    size, member = 0, zlib.decompressobj(wbits=31)
    with suppress(zlib.error):
        for start in range(0, len(mutant.content), 1 << 16):
            size += len(member.decompress(mutant.content[start : start + (1 << 16)]))
    return size


def _tell(pipe: int, message: dict[str, object]) -> None:
    os.write(pipe, json.dumps(message).encode() + b"\n")


def _watched(mutant: Mutant, child: int, pipe: int) -> Iterator[Find]:
    """What the process of a mutant says; it is ended where it says nothing for long."""
    use, pending, ended = "start", b"", False
    while True:
        ready, _, _ = select.select([pipe], [], [], _LONGEST_S)
        block = os.read(pipe, 1 << 16) if ready else b""
        *lines, pending = (pending + block).split(b"\n")
        for line in lines:
            message = json.loads(line)
            use, ended = message.get("begins", use), "ends" in message
            if "what" in message:
                yield Find(mutant.name, use, message["what"], message["where"])
        if not block:
            break
    os.close(pipe)
    if not ended:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not ended:
        what = "hangs" if not ready else f"ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "died"
        yield Find(mutant.name, use, what, f"{what} in {use}")
    sys.stdout.flush()
