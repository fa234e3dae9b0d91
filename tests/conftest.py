"""Where the tests find traces: the samples of this repository, and a corpus of public traces beside it."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from overlapscope import Audit, Trace, audit, open_trace

os.environ["OVERLAPSCOPE_CACHE"] = "off"  # tests leave nothing in anybody's home folder
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is there: on tiny tensors its threads wait for each other

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "sample_traces"
PAIRS = ROOT / "benchmarks" / "pairs"
CASES = Path(__file__).resolve().parent / "cases"
CORPUS = Path(os.environ.get("OVERLAPSCOPE_CORPUS", ROOT.parent / "shared" / "traces"))
CORPUS_REQUIRED = os.environ.get("OVERLAPSCOPE_CORPUS_REQUIRED") == "1"
NOT_TRACES = {".csv", ".md", ".txt"}
REFUSED = {"sqlite-not-nsys", "astra-et-rank0", "hta-exec-et", "lfs-pointer"}


def corpus_files() -> list[Path]:
    """Every trace of the corpus; nothing when it is not there."""
    if not (CORPUS / "MANIFEST.json").exists():
        return []
    nested = (path for path in CORPUS.glob("*/**/*") if path.is_file() and path.suffix not in NOT_TRACES)
    return sorted(path for path in nested if path.parent.name != "LICENCES")


def manifest() -> dict[str, Any]:
    return {entry["id"]: entry for entry in json.loads((CORPUS / "MANIFEST.json").read_text())["entries"]}


def trace_id(path: Path) -> str:
    return path.name.split("__")[0]


@lru_cache(maxsize=1)
def opened(path: Path) -> Trace:
    """A trace; the tests about one of the corpus run one after the other, and share it."""
    return open_trace(path)


@lru_cache(maxsize=1)
def audited(path: Path) -> Audit:
    """The audit of a whole trace, likewise."""
    return audit(opened(path))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``corpus_file`` is every file of the corpus, ``corpus_trace`` every one that is a trace."""
    for name in ("corpus_file", "corpus_trace"):
        if name not in metafunc.fixturenames:
            continue
        files = [path for path in corpus_files() if name == "corpus_file" or trace_id(path) not in REFUSED]
        if not files and not CORPUS_REQUIRED:
            reason = pytest.mark.skip(reason=f"no trace corpus at {CORPUS}")
            metafunc.parametrize(name, [pytest.param(None, marks=reason)])
        else:
            assert files, f"OVERLAPSCOPE_CORPUS_REQUIRED is set and there is no trace corpus at {CORPUS}"
            metafunc.parametrize(name, files, ids=[trace_id(path) for path in files], scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for the corpus has its marker."""
    for item in items:
        if {"corpus", "corpus_file", "corpus_trace"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("corpus")


@pytest.fixture(scope="session")
def corpus() -> Path:
    if not (CORPUS / "MANIFEST.json").exists():
        assert not CORPUS_REQUIRED, f"OVERLAPSCOPE_CORPUS_REQUIRED is set and there is no trace corpus at {CORPUS}"
        pytest.skip(f"no trace corpus at {CORPUS}")
    return CORPUS
