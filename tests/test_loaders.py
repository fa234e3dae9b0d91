"""What a recording notes of DataLoaders."""

from __future__ import annotations

import collections
import inspect
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from overlapscope.calibration.data import published, to_json
from overlapscope.calibration.schema import Loader
from overlapscope.capture.recorder import record
from overlapscope.read.opening import open_trace

DATA = torch.ones(6, 2)
NAME = Path(__file__).name


class Batch:
    def __init__(self, rows: list[torch.Tensor]) -> None:
        self.x = torch.stack(rows)


class Pinnable(Batch):
    def pin_memory(self) -> Pinnable:
        return self


Pair = collections.namedtuple("Pair", "first second")


def noted(path: Path) -> tuple[Loader, ...]:
    recording = open_trace(path).metadata.recording
    assert recording is not None
    return recording.loaders


def of(collate: Any, path: Path) -> Loader:
    with record(path, device="cpu"):
        for _ in DataLoader(DATA, batch_size=3, collate_fn=collate):  # type: ignore[arg-type]
            pass
    (loader,) = noted(path)
    return loader


@pytest.mark.parametrize(
    ("collate", "batch", "unpinnable"),
    [
        (None, "torch.Tensor", ""),
        (Batch, f"{__name__}.Batch", f"{__name__}.Batch"),
        (Pinnable, f"{__name__}.Pinnable", ""),
        (lambda rows: {"x": rows, "y": [Batch(rows)], "names": "ab"}, "dict", f"{__name__}.Batch"),
        (lambda rows: Pair(torch.stack(rows), 3), f"{__name__}.Pair", ""),
        (len, "int", ""),
    ],
)
def test_batches_that_cannot_be_pinned_are_noted(collate: Any, batch: str, unpinnable: str, tmp_path: Path) -> None:
    loader = of(collate, tmp_path / "t.json")
    assert (loader.batch, loader.unpinnable, loader.batches) == (batch, unpinnable, 2)


def test_settings_and_place_are_noted(tmp_path: Path) -> None:
    with record(tmp_path / "t.json", device="cpu"):
        line = inspect.getframeinfo(inspect.currentframe()).lineno + 1  # type: ignore[arg-type]
        loader = DataLoader(DATA, num_workers=2, prefetch_factor=3, persistent_workers=True)  # type: ignore[arg-type]
        DataLoader(DATA)  # type: ignore[arg-type]
        for _ in range(2):
            assert len(list(loader)) == 6
    expected = Loader(f"{NAME}:{line}", 2, False, 3, True, "torch.Tensor", "", 12)
    (found,) = noted(tmp_path / "t.json")
    assert replace(found, item_ns=None, collate_ns=None, in_worker=None, ready=()) == expected


def test_a_loader_that_was_made_before_is_placed_where_it_is_looped_over(tmp_path: Path) -> None:
    made_before, begun_before = DataLoader(DATA), iter(DataLoader(DATA, batch_size=6))  # type: ignore[arg-type]
    with record(tmp_path / "t.json", device="cpu"):
        line = inspect.getframeinfo(inspect.currentframe()).lineno + 1  # type: ignore[arg-type]
        for _ in made_before:
            pass
        next(begun_before)
    assert [(each.place, each.workers, each.batches) for each in noted(tmp_path / "t.json")] == [
        (f"{NAME}:{line}", 0, 6),
        ("", 0, 1),
    ]


def test_a_loader_without_a_length_is_noted(tmp_path: Path) -> None:
    class Endless(IterableDataset[torch.Tensor]):
        def __iter__(self) -> Iterator[torch.Tensor]:
            while True:
                yield torch.ones(2)

    with record(tmp_path / "t.json", device="cpu"):
        next(iter(DataLoader(Endless())))
    assert [each.batches for each in noted(tmp_path / "t.json")] == [1]


def test_loaders_are_left_as_they_were(tmp_path: Path) -> None:
    before = DataLoader.__init__, DataLoader.__iter__
    of(None, tmp_path / "t.json")
    assert (DataLoader.__init__, DataLoader.__iter__) == before


def test_a_noted_loader_says_nothing_of_folders(tmp_path: Path) -> None:
    of(None, tmp_path / "t.json")
    recording = open_trace(tmp_path / "t.json").metadata.recording
    assert recording is not None
    assert str(Path(__file__).parent) not in str(to_json(recording))
    kept = published(to_json(recording))
    assert kept is not None
    assert kept["loaders"][0]["place"].startswith(f"{NAME}:")
