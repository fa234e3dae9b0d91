"""The benchmark that counts what races spoil: its counts, and the program without a GPU, where nothing races."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
import torch

from benchmarks.races import caches
from benchmarks.races.__main__ import main
from benchmarks.races.counts import Counts, farthest
from benchmarks.races.twins import ALL
from overlapscope import open_trace


def test_counts_are_of_runs_and_of_values() -> None:
    assert Counts.of([[1, 2, 3], [1, 0, 0], [1, 2, 4]], [1, 2, 3]) == Counts(3, 2, 9, 3)
    assert Counts.of([[float("nan")]], [1.0]) == Counts(1, 1, 1, 1)
    with pytest.raises(ValueError, match="zip"):
        Counts.of([[1]], [1, 2])


def test_the_farthest_value_is_a_number() -> None:
    assert farthest([[1.0, 2.5], [0.0, 2.0]], [1.0, 2.0]) == 1.0
    assert farthest([[float("nan"), 2.0]], [1.0, 2.0]) is None


def test_each_rule_about_races_has_a_program_and_its_twin() -> None:
    assert [each.rule for each in ALL] == ["OVL101", "OVL102", "OVL103", "OVL104", "OVL105"]
    for each in ALL:
        assert each.program.variant(each.healthy).fixed_by is None


class Stream:
    """Notes who waits for whom."""

    def __init__(self, name: str, notes: list[tuple[str, str]]) -> None:
        self.name, self.notes = name, notes

    def wait_stream(self, other: Stream) -> None:
        self.notes.append((self.name, other.name))

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def test_the_unordered_cache_differs_by_one_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream of the kernels waits for what comes back; what comes back waits for what leaves, or for nothing."""

    class Deaf(Stream):
        wait_stream: Any = caches.WaitsForNothing.wait_stream

    for kind, waits in (
        (Stream, [("kernels", "prefetch"), ("prefetch", "kernels")]),
        (Deaf, [("kernels", "prefetch")]),
    ):
        notes: list[tuple[str, str]] = []
        kernels = Stream("kernels", notes)
        monkeypatch.setattr(torch.cuda, "default_stream", lambda device, stream=kernels: stream)
        cache = caches.DynamicCache(config=caches.config_of(caches.ON_CPU), offloading=True)
        cache.prefetch_stream = kind("prefetch", notes)
        cache.update(torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 1, 2), 0)
        assert notes == waits


def test_without_a_gpu_nothing_differs(tmp_path: Path) -> None:
    main(["--out", str(tmp_path), "--device", "cpu", "--repeats", "1"])
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert (results["gpu"], results["device"]) == ("", "cpu")
    assert {"torch", "transformers"} <= results["versions"].keys()
    counts = [each for found in results["workloads"].values() for each in found["variants"].values()]
    counts += [found[what] for found in results["caches"].values() for what in ("tokens", "logits")]
    assert len(counts) == 2 * len(ALL) + 2 * 4
    assert all(each["runs"] == 1 and each["values"] > 0 for each in counts)
    assert not any(each["runs_differing"] or each["values_differing"] for each in counts)
    recordings = sorted(tmp_path.glob("*.json.gz"))
    assert len(recordings) == 2 * len(ALL) + 4
    assert all(len(open_trace(path).cpu_ops) for path in recordings)
