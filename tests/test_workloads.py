"""The example programs, on the CPU: every variant runs, and those that mend each other compute the same."""

from __future__ import annotations

import json
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from overlapscope.cli.main import app
from overlapscope.errors import CaptureError
from overlapscope.plot.transfers import save_transfers
from overlapscope.read.opening import open_trace
from overlapscope.workloads import harness, pinning_sweep
from overlapscope.workloads.catalogue import NAMES, workloads
from overlapscope.workloads.dataloader_train import BatchKind, Collate, LooseBatch, PinnableBatch
from overlapscope.workloads.harness import Variant, Workload, measure
from overlapscope.workloads.prefetcher import Prefetcher

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

ALL = [(workload, variant) for workload in workloads() for variant in workload.variants]
EVERY_VARIANT = pytest.mark.parametrize(
    ("workload", "variant"), ALL, ids=[f"{workload.name}-{variant.name}" for workload, variant in ALL]
)


def result_of(workload: Workload[Any, Any], name: str) -> Any:
    program = workload.build(name, "cpu")
    program.run()
    program.run()  # again: a pass leaves nothing behind that changes the next
    return program.result()


@EVERY_VARIANT
def test_every_variant_runs_and_computes_what_its_mended_twin_does(
    workload: Workload[Any, Any], variant: Variant[Any]
) -> None:
    result = result_of(workload, variant.name)
    if variant.fixed_by is not None:
        twin = workload.variant(variant.fixed_by)
        assert twin.choices != variant.choices
        mended = result_of(workload, twin.name)
        if variant.name.startswith(("list", "tensordict", "coalesced")) or result is not None:
            torch.testing.assert_close(result, mended)


@pytest.mark.parametrize("workload", workloads(), ids=NAMES)
def test_a_pass_is_one_range_with_the_workloads_name(workload: Workload[Any, Any], tmp_path: Path) -> None:
    program = workload.build(None, "cpu")
    with torch.profiler.profile() as profiler:
        program.run()
    profiler.export_chrome_trace(str(tmp_path / "t.json"))
    ranges = open_trace(tmp_path / "t.json").ranges
    names = [ranges.names[number] for number in ranges.name_id]
    assert names.count(workload.name) == 1
    whole = names.index(workload.name)
    assert (ranges.start_ns >= ranges.start_ns[whole]).all()
    assert (ranges.end_ns <= ranges.end_ns[whole]).all()
    assert len(set(names)) >= 2


@pytest.mark.parametrize("workload", workloads(), ids=NAMES)
def test_variants_are_told_apart(workload: Workload[Any, Any]) -> None:
    assert len({variant.name for variant in workload.variants}) == len(workload.variants)
    assert len({variant.choices for variant in workload.variants}) == len(workload.variants)
    assert any(variant.fixed_by is None for variant in workload.variants)
    for variant in workload.variants:
        assert variant.says
        assert variant.fixed_by is None or workload.variant(variant.fixed_by).fixed_by is None


def test_measure_counts_only_what_it_says() -> None:
    calls: list[int] = []
    figures = measure(lambda: calls.append(1), repeats=4, warmup=2)
    assert len(calls) == 6
    assert figures["repeats"] == 4
    assert figures["min_ms"] <= figures["median_ms"] <= figures["max_ms"]


def test_a_workload_measures_a_variant_by_name() -> None:
    from overlapscope.workloads.dataloader_train import measure as measure_loader

    figures = measure_loader("pageable-blocking", "cpu", repeats=1)
    assert {"median_ms", "transfer_ms", "kernels_ms"} <= figures.keys()


def run_main(workload: Workload[Any, Any], capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    harness.main(workload, ["--device", "cpu", "--repeats", "1", *argv])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def by_name(name: str) -> Workload[Any, Any]:
    return {workload.name: workload for workload in workloads()}[name]


def test_the_command_times_a_variant_and_records_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "t.json.gz"
    found = run_main(by_name("gemm_copy"), capsys, "--rounds", "2", "--trace", str(target))
    assert (found["variant"], found["repeats"]) == ("pageable-copy-first-non-blocking-side", 1)
    trace = open_trace(target)
    names = [trace.names[number] for number in trace.ranges.name_id]
    assert [names.count(name) for name in ("gemm_copy", "round", "copy", "matmul")] == [1, 2, 2, 2]
    assert trace.metadata.recording is not None


def test_choices_make_a_variant(capsys: pytest.CaptureFixture[str]) -> None:
    gemm = by_name("gemm_copy")
    assert run_main(gemm, capsys, "--memory", "pinned", "--blocking")["variant"] == "pinned-copy-first-blocking-side"
    moe = by_name("moe_prefetch")
    assert run_main(moe, capsys, "--variant", "ahead", "--no-ahead")["variant"] == "no-host-routing"
    assert run_main(moe, capsys, "--variant", "ahead", "--memory", "pageable")["variant"] == "custom"


def test_the_command_lists_its_variants(capsys: pytest.CaptureFixture[str]) -> None:
    harness.main(by_name("offload"), ["--list"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        variant.name for variant in by_name("offload").variants
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
@pytest.mark.parametrize("workload", workloads(), ids=NAMES)
def test_a_clear_sentence_without_a_gpu(workload: Workload[Any, Any], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        harness.main(workload, [])
    assert left.value.code == 2
    assert "no CUDA device" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "variant", "package"),
    [("moe_prefetch", "pageable", "transformers"), ("pinning_guide", "tensordict-to", "tensordict")],
)
def test_a_missing_package_is_named(name: str, variant: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"overlapscope.workloads.{name}.find_spec", lambda _: None)
    with pytest.raises(CaptureError, match=rf"{package}: pip install 'overlapscope\["):
        by_name(name).build(variant, "cpu")


def test_all_workloads_are_listed_with_their_variants() -> None:
    result = CliRunner().invoke(app, ["workloads"])
    assert result.exit_code == 0
    for workload, variant in ALL:
        assert workload.module in result.stdout
        assert variant.name in result.stdout
        assert variant.says in result.stdout


Pair = namedtuple("Pair", "images labels")


def test_a_prefetcher_delivers_every_batch_in_order_and_shape() -> None:
    batches = [
        {"images": torch.full((2,), float(number)), "rest": [Pair(torch.tensor(number), "name"), (number,)]}
        for number in range(3)
    ]
    prefetcher = Prefetcher(batches, "cpu")
    for _ in range(2):  # two epochs
        found = list(prefetcher)
        assert [float(batch["images"][0]) for batch in found] == [0.0, 1.0, 2.0]
        assert found[1]["rest"] == [Pair(torch.tensor(1), "name"), (1,)]
        assert isinstance(found[0]["rest"][0], Pair)
    assert list(Prefetcher([], "cpu")) == []


def test_a_prefetcher_asks_for_one_batch_more_than_it_has_delivered() -> None:
    asked = []

    def loader() -> Any:
        for number in range(3):
            asked.append(number)
            yield number

    batches = iter(Prefetcher(loader(), "cpu"))
    assert next(batches) == 0
    assert asked == [0, 1]


def test_a_loader_pins_only_a_batch_that_can_be() -> None:
    samples = [(torch.zeros(3), 1)]
    kinds = {kind: Collate(kind)(samples) for kind in BatchKind}
    assert isinstance(kinds[BatchKind.CUSTOM], PinnableBatch)
    assert hasattr(kinds[BatchKind.CUSTOM], "pin_memory")
    assert isinstance(kinds[BatchKind.CUSTOM_WITHOUT_PIN], LooseBatch)
    assert not hasattr(kinds[BatchKind.CUSTOM_WITHOUT_PIN], "pin_memory")


def test_the_sweep_is_measured_and_drawn(tmp_path: Path) -> None:
    pinning_sweep.main(["--device", "cpu", "--repeats", "1", "--out", str(tmp_path / "sweep.json")])
    found = json.loads((tmp_path / "sweep.json").read_text())
    assert {row["way"] for row in found["transfers"]} == {"to", "to-non-blocking", "pin-then-to", "pinned-ahead"}
    assert all(0 < row["min_us"] <= row["median_us"] <= row["max_us"] for row in found["transfers"])
    assert len(found["many"]) == 6
    for suffix in (".svg", ".pdf", ".png"):
        figure = tmp_path / f"figure{suffix}"
        result = CliRunner().invoke(app, ["transfers", str(tmp_path / "sweep.json"), "-o", str(figure)])
        assert result.exit_code == 0, result.stderr
        assert figure.stat().st_size > 1000
    text = (tmp_path / "figure.svg").read_text()
    assert all(label in text for label in ("pin-then-to", "coalesced", "GB/s", "no GPU"))
    save_transfers(found, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == text


@pytest.mark.parametrize(
    ("content", "sentence"), [(None, "cannot be read"), ("{", "no JSON"), ("{}", "not written by")]
)
def test_what_is_no_sweep_is_said(content: str | None, sentence: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "sweep.json").write_text(content)
    result = CliRunner().invoke(app, ["transfers", str(tmp_path / "sweep.json"), "-o", str(tmp_path / "f.png")])
    assert (result.exit_code, sentence in result.stderr) == (2, True)
