"""The example programs, on the CPU: every variant runs, and those that mend each other compute the same."""

from __future__ import annotations

import json
import os
from collections import Counter, UserDict, namedtuple
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from overlapscope.cli.main import app
from overlapscope.errors import CaptureError
from overlapscope.plot.transfers import save_transfers
from overlapscope.read.opening import open_trace
from overlapscope.workloads import (
    dataloader_train,
    experts,
    freed_memory,
    gemm_copy,
    harness,
    host_round_trip,
    moe_prefetch,
    moe_sparse,
    offload,
    pinning_guide,
    pinning_sweep,
    prefetcher,
    scalar_reads,
    self_wait,
    staging_buffer,
    streams,
    zero_copy,
)
from overlapscope.workloads.dataloader_train import BatchKind, Collate, LooseBatch, PinnableBatch
from overlapscope.workloads.harness import NAMES, Program, Variant, Workload, measure, workloads
from overlapscope.workloads.prefetcher import Prefetcher
from overlapscope.workloads.streams import Memory

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

ALL = [(workload, variant) for workload in workloads() for variant in workload.variants]
EVERY_VARIANT = pytest.mark.parametrize(
    ("workload", "variant"), ALL, ids=[f"{workload.name}-{variant.name}" for workload, variant in ALL]
)


DEVICE = os.environ.get("OVERLAPSCOPE_TEST_DEVICE", "cpu")
"""Where the programs run: on a machine with a GPU, ``cuda`` checks their streams and events too."""


RACING = [self_wait.WORKLOAD, host_round_trip.WORKLOAD, staging_buffer.WORKLOAD, freed_memory.WORKLOAD]
"""Workloads whose first variant may compute something wrong on a GPU."""


def program_of(workload: Workload[Any, Any], name: str | None = None) -> Program:
    """A variant, small, that has run twice: a pass leaves nothing behind that changes the next."""
    program = workload.build(name, DEVICE, workload.on_cpu)
    program.run()
    program.run()
    return program


@EVERY_VARIANT
def test_every_variant_runs_and_computes_what_its_fixed_twin_does(
    workload: Workload[Any, Any], variant: Variant[Any]
) -> None:
    result = program_of(workload, variant.name).result()
    assert result is not None
    if variant.fixed_by is not None and "read" not in variant.name and (workload not in RACING or DEVICE == "cpu"):
        twin = workload.variant(variant.fixed_by)
        assert twin.choices != variant.choices
        torch.testing.assert_close(result, program_of(workload, twin.name).result())


# What each program computes, worked out without it


@pytest.mark.parametrize("variant", gemm_copy.WORKLOAD.variants, ids=lambda variant: variant.name)
def test_gemm_copy_multiplies_and_copies(variant: Variant[Any]) -> None:
    product, *copies = program_of(gemm_copy.WORKLOAD, variant.name).result()  # type: ignore[misc]
    sizes = gemm_copy.WORKLOAD.on_cpu
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(sizes.width, sizes.width, generator=generator).to(DEVICE) for _ in range(2))
    torch.testing.assert_close(product, a @ b)
    assert [copy.unique().tolist() for copy in copies] == [[float(number)] for number in range(1, sizes.rounds + 1)]


@pytest.mark.parametrize("variant", zero_copy.VARIANTS, ids=lambda variant: variant.name)
def test_zero_copy_adds_every_batch(variant: Variant[Any]) -> None:
    """Each is added to half of what was there before."""
    total, _ = program_of(zero_copy.WORKLOAD, variant.name).result()  # type: ignore[misc]
    expected = 0.0
    for number in range(1, zero_copy.WORKLOAD.on_cpu.batches + 1):
        expected = (expected + number) / 2
    assert total.unique().tolist() == [expected]


@pytest.mark.parametrize(
    ("workload", "variant"),
    [(workload, variant) for workload in RACING for variant in workload.variants],
    ids=lambda each: each.name,
)
def test_what_is_ordered_is_right_and_what_is_wrong_is_counted(
    workload: Workload[Any, Any], variant: Variant[Any]
) -> None:
    program = program_of(workload, variant.name)
    read, wrong = program.facts().values()
    assert read == 4
    if DEVICE == "cpu" or variant.fixed_by is None:
        assert wrong == 0
        assert program.result() == [1.0, 2.0]


@pytest.mark.parametrize("variant", ["pageable", "ahead"])
def test_moe_prefetch_computes_what_the_layers_of_transformers_do(variant: str) -> None:
    workload = moe_prefetch.WORKLOAD
    sizes = workload.on_cpu
    blocks = experts.sparse_blocks(sizes, DEVICE)
    hidden = torch.randn(sizes.tokens, sizes.width, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    with torch.no_grad():
        for block in blocks:
            hidden = hidden + block.to(DEVICE)(hidden[None])[0]
    torch.testing.assert_close(program_of(workload, variant).result(), hidden)


@pytest.mark.parametrize("variant", [variant.name for variant in moe_sparse.WORKLOAD.variants])
def test_moe_sparse_computes_what_the_experts_of_each_token_do(variant: str) -> None:
    sizes = moe_sparse.WORKLOAD.on_cpu
    hidden = torch.randn(sizes.tokens, sizes.width, generator=torch.Generator().manual_seed(1))
    entered = hidden  # what the block before began with: a block's router runs one block ahead
    with torch.no_grad():
        for block in experts.sparse_blocks(sizes, "cpu"):
            mask, weight, _ = block.router(entered[None])
            chosen = mask[0].argmax(1).tolist()
            added = [block.experts[f"expert_{expert}"](row) for expert, row in zip(chosen, hidden, strict=True)]
            entered, hidden = hidden, hidden + weight[0] * torch.stack(added)
    torch.testing.assert_close(program_of(moe_sparse.WORKLOAD, variant).result(), hidden.to(DEVICE))


def test_a_sparse_prefetch_stays_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every variant fetches the same experts, not all of them."""
    fetched: dict[str, set[tuple[int, int]]] = {}

    for kind in (experts.Ahead, experts.OnDemand):

        def sent(self: Any, block: int, numbers: list[int], *, send: Any = kind.send) -> None:
            fetched.setdefault(name, set()).update((block, number) for number in numbers)
            send(self, block, numbers)

        monkeypatch.setattr(kind, "send", sent)
    for name in [variant.name for variant in moe_sparse.WORKLOAD.variants]:
        moe_sparse.WORKLOAD.build(name, DEVICE, moe_sparse.WORKLOAD.on_cpu).run()
    sizes = moe_sparse.WORKLOAD.on_cpu
    first, *others = fetched.values()
    assert all(other == first for other in others)
    assert 0 < len(first) < sizes.blocks * sizes.experts


@pytest.mark.parametrize(("variant", "reads"), [("as-asked", 8 * 3), ("one-read", 0), ("ahead", 0)])
def test_only_the_loop_as_asked_reads_each_expert(variant: str, reads: int) -> None:
    program = moe_sparse.build(variant, DEVICE, moe_sparse.WORKLOAD.on_cpu)
    program.run()
    assert operators(program)["aten::is_nonzero"] == reads


@pytest.mark.parametrize("variant", ["pageable", "pinned-non-blocking", "no-host-routing"])
def test_experts_are_fetched_before_their_block_and_none_twice(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[tuple[int, int]] = []
    copy = experts.OnDemand.copy_expert
    needed: list[int] = []

    def spy(self: Any, block: int, number: int) -> Any:
        fetched.append((block, number))
        return copy(self, block, number)

    take = experts.OnDemand.take

    def noting(self: Any, block: int, experts: list[int]) -> Any:
        assert {number for where, number in fetched if where == block}, "nothing was sent for in advance"
        needed.append(len(experts))
        return take(self, block, experts)

    monkeypatch.setattr(experts.OnDemand, "copy_expert", spy)
    monkeypatch.setattr(experts.OnDemand, "take", noting)
    moe_prefetch.WORKLOAD.build(variant, DEVICE, moe_prefetch.WORKLOAD.on_cpu).run()
    assert len(set(fetched)) == len(fetched) >= sum(needed) > 0


@pytest.mark.parametrize("blocking", [True, False])
def test_blocking_is_what_the_copies_are_told(blocking: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    told: set[bool] = set()
    to = torch.Tensor.to

    def spy(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if "non_blocking" in kwargs:
            told.add(kwargs["non_blocking"])
        return to(self, *args, **kwargs)

    program = moe_prefetch.WORKLOAD.build(moe_prefetch.Choices(blocking=blocking), DEVICE, moe_prefetch.WORKLOAD.on_cpu)
    monkeypatch.setattr(torch.Tensor, "to", spy)
    program.run()
    assert told == {not blocking}


@pytest.mark.parametrize("variant", [variant.name for variant in pinning_guide.WORKLOAD.variants])
def test_pinning_guide_delivers_every_number(variant: str) -> None:
    sizes = pinning_guide.WORKLOAD.on_cpu
    found: Any = program_of(pinning_guide.WORKLOAD, variant).result()
    if variant == "read-after-wait":
        assert found == [1.0, 2.0]
    elif variant in {"read-early", "read-as-written"}:
        assert DEVICE != "cpu" or found == [1.0, 2.0]
    else:
        beside = variant.startswith("concurrent")
        count = sizes.small if variant.startswith(("list", "tensordict", "coalesced")) else sizes.large
        assert len(found) == count + beside
        assert [tensor.unique().tolist() for tensor in found[:count]] == [[float(number)] for number in range(count)]
        if beside:
            matrix = torch.randn(sizes.width, sizes.width, generator=torch.Generator().manual_seed(0)).to(DEVICE)
            torch.testing.assert_close(found[-1], matrix @ matrix)


@pytest.mark.parametrize("way", sorted(pinning_guide.WAYS[pinning_guide.Load.LARGE]))
def test_a_way_pins_and_blocks_as_its_name_says(way: str) -> None:
    """As a GPU would see it, with a tensor that notes what it is asked for."""
    asked: list[str] = []

    class Noting:
        def pin_memory(self) -> Any:
            asked.append("pin")
            return self

        def to(self, device: str, *, non_blocking: bool = False) -> Any:
            asked.append("go on" if non_blocking else "wait")
            return self

    pinning_guide.transfer(Noting(), pinning_guide.Way(way), "cuda")  # type: ignore[arg-type]
    assert (
        asked
        == {
            "to": ["wait"],
            "to-non-blocking": ["go on"],
            "pin-then-to": ["pin", "go on"],
            "pin-then-blocking": ["pin", "wait"],
            "pin-alone": ["pin"],
            "pinned-blocking": ["wait"],
            "pinned-ahead": ["go on"],
        }[way]
    )
    assert pinning_guide.pinned_before(pinning_guide.Way(way), "cuda") == way.startswith("pinned")


def trained_alone(
    model: torch.nn.Module, batches: list[tuple[torch.Tensor, torch.Tensor]], l2: float = 0.0
) -> list[float]:
    """The losses of plain training on these batches; with a penalty, their sum and the number of hits too."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses, hits = [], 0
    for images, labels in batches:
        output = model(images)
        squares = torch.cat([weight.flatten() for weight in model.parameters()]).square().sum()
        loss = torch.nn.functional.cross_entropy(output, labels) + l2 * squares
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        hits += int((output.argmax(1) == labels).sum())
    return [*losses, sum(losses), hits] if l2 else losses


@pytest.mark.parametrize("variant", [variant.name for variant in prefetcher.WORKLOAD.variants])
def test_prefetcher_trains_on_its_batches(variant: str) -> None:
    sizes = prefetcher.WORKLOAD.on_cpu
    program = prefetcher.WORKLOAD.build(variant, DEVICE, sizes)
    program.run()
    torch.manual_seed(0)
    batches = prefetcher.make_batches(Memory.PAGEABLE, sizes, "cpu")
    model = prefetcher.network(sizes.channels).to(DEVICE)
    expected = trained_alone(model, [(images.to(DEVICE), labels.to(DEVICE)) for images, labels in batches])
    assert program.result() == pytest.approx(expected, rel=1e-4)


def test_only_the_prefetcher_variants_prefetch() -> None:
    loops = {
        variant.name: type(prefetcher.delivery([], variant.choices.loop, "cpu"))
        for variant in prefetcher.WORKLOAD.variants
    }
    assert {name for name, kind in loops.items() if kind is Prefetcher} == {"prefetcher", "prefetcher-pageable"}


@pytest.mark.parametrize("variant", [variant.name for variant in dataloader_train.WORKLOAD.variants])
def test_dataloader_train_trains_on_its_images(variant: str) -> None:
    sizes = dataloader_train.WORKLOAD.on_cpu
    program = dataloader_train.WORKLOAD.build(variant, DEVICE, sizes)
    program.run()
    torch.manual_seed(0)
    model = dataloader_train.network(sizes.channels).to(DEVICE)
    images = dataloader_train.Images(100, sizes.image)
    samples = [[images[step * sizes.images + each] for each in range(sizes.images)] for step in range(sizes.steps)]
    batches = [
        (torch.stack([image for image, _ in batch]).to(DEVICE), torch.tensor([label for _, label in batch]).to(DEVICE))
        for batch in samples
    ]
    expected = trained_alone(model, batches, l2=0.001 if variant.startswith("article") else 0.0)
    assert program.result() == pytest.approx(expected, rel=1e-4)


def test_a_loader_without_workers_gives_the_same_batches(capsys: pytest.CaptureFixture[str]) -> None:
    loader, sizes = dataloader_train.WORKLOAD, dataloader_train.WORKLOAD.on_cpu
    alone = loader.build(None, DEVICE, replace(sizes, workers=0))
    alone.run()
    alone.run()
    assert alone.result() == pytest.approx(program_of(loader).result(), rel=1e-4)
    assert run_main(loader, capsys, "--workers", "0")["variant"] == "pageable-blocking"
    with pytest.raises(SystemExit):
        run_main(loader, capsys, "--steps", "0")
    assert "at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("variant", [variant.name for variant in offload.WORKLOAD.variants])
def test_offload_does_not_change_gradients(variant: str) -> None:
    sizes = offload.WORKLOAD.on_cpu
    generator = torch.Generator().manual_seed(0)
    scale = sizes.width**-0.5 / sizes.layers
    weights = [
        (torch.randn(sizes.width, sizes.width, generator=generator) * scale).to(DEVICE).requires_grad_()
        for _ in range(sizes.layers)
    ]
    hidden = torch.randn(sizes.tokens, sizes.width, generator=generator).to(DEVICE)
    for weight in weights:
        hidden = hidden + hidden @ weight
    hidden.mean().backward()
    torch.testing.assert_close(program_of(offload.WORKLOAD, variant).result(), [weight.grad for weight in weights])


def operators(program: Program) -> Counter[str]:
    """What a pass calls, by name."""
    with torch.profiler.profile() as profiler:
        program.run()
    return Counter(event.name for event in profiler.events())


@pytest.mark.parametrize(
    ("workload", "variant", "reads"),
    [
        (scalar_reads, "item", 3),
        (scalar_reads, "item-deferred", 1),
        (scalar_reads, "cpu-deferred", 0),
        (dataloader_train, "pinned-item", 3),
        (dataloader_train, "pinned-non-blocking", 0),
        (dataloader_train, "article-loop", 6),
        (dataloader_train, "article-loop-deferred", 2),
    ],
)
def test_what_reads_a_scalar_in_every_step_does(workload: Any, variant: str, reads: int) -> None:
    program = workload.build(variant, DEVICE, workload.WORKLOAD.on_cpu)
    program.run()
    calls = operators(program)
    extra = 3 if variant == "cpu-deferred" else 0  # float() of what has arrived on the host
    assert calls["aten::item"] == reads + extra


# All of them


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
        assert variant.summary
        assert variant.fixed_by is None or workload.variant(variant.fixed_by).fixed_by is None


def test_measure_times_the_passes_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that only a pass moves: warm-ups take 100 ms here, passes 1, 2, 3 ms."""
    now, lengths = 0, iter([100, 100, 3, 1, 2])

    def run() -> None:
        nonlocal now
        now += next(lengths) * 1_000_000

    monkeypatch.setattr(harness.time, "perf_counter_ns", lambda: now)
    assert measure(run, repeats=3, warmup=2) == {"median_ms": 2.0, "min_ms": 1.0, "max_ms": 3.0, "repeats": 3}


def test_a_stopwatch_measures_between_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([0, 5_000_000, 5_000_000, 6_000_000, 10_000_000, 13_000_000])
    monkeypatch.setattr(streams.time, "perf_counter_ns", lambda: next(moments))
    watch = streams.Stopwatch("cpu")
    for _ in range(3):
        with watch:
            pass
    assert watch.median_ms() == 3.0


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


def test_what_is_compared_is_timed_in_turns_each_after_calls_that_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a clock that passes move: the first of one after the other takes ten times as long."""
    now, told, before = 0, [], ""

    def run(name: str, takes: int) -> None:
        nonlocal now, before
        now += takes if before == name else 10 * takes
        before = name
        told.append(name)

    monkeypatch.setattr(harness.time, "perf_counter_ns", lambda: now)
    runs = [partial(run, "a", 1), partial(run, "b", 2)]
    assert harness.in_turns_ns(runs, repeats=7, warmup=1) == [7 * [1], 7 * [2]]
    assert "".join(told) == "ab" + "aaaaaaabbbbbbb" + "aaaabbbb"


def test_the_command_times_other_variants_beside_one(capsys: pytest.CaptureFixture[str]) -> None:
    guide = by_name("pinning_guide")
    found = run_main(guide, capsys, "--variant", "list-to", "--beside", "coalesced", "list-pinned-ahead")
    assert list(found["in_turns_ms"]) == ["list-to", "coalesced", "list-pinned-ahead"]
    assert all(value > 0 for value in found["in_turns_ms"].values())
    assert "in_turns_ms" not in run_main(guide, capsys, "--variant", "list-to")


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


@pytest.mark.parametrize("device", ["gpu", "mps", "cuda:", "CPU"])
def test_a_device_that_is_none_is_said(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        harness.main(by_name("offload"), ["--device", device])
    assert f"no device '{device}'" in capsys.readouterr().err


def test_choices_that_do_nothing_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_main(by_name("pinning_guide"), capsys, "--variant", "coalesced", "--way", "to")
    assert "--load coalesced goes with --way pinned-ahead" in capsys.readouterr().err


def test_a_trace_that_cannot_be_written_is_said_before_anything_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        harness.main(by_name("offload"), ["--device", "cpu", "--trace", "/none/t.json"])
    captured = capsys.readouterr()
    assert (captured.out, "cannot be written" in captured.err) == ("", True)


@pytest.mark.parametrize(
    ("module", "name", "variant", "package"),
    [
        ("experts", "moe_prefetch", "pageable", "transformers"),
        ("pinning_guide", "pinning_guide", "tensordict-to", "tensordict"),
    ],
)
def test_a_missing_package_is_named(
    module: str, name: str, variant: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"overlapscope.workloads.{module}.find_spec", lambda _: None)
    with pytest.raises(CaptureError, match=f"{package}: pip install {package}$"):
        by_name(name).build(variant, "cpu")


def test_all_workloads_are_listed_with_their_variants() -> None:
    result = CliRunner().invoke(app, ["workloads"])
    assert result.exit_code == 0
    for workload, variant in ALL:
        assert workload.module in result.stdout
        assert variant.name in result.stdout
        assert variant.summary in result.stdout


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


def test_a_prefetcher_moves_batch_types_of_ones_own() -> None:
    moved = []

    class Batch:
        def to(self, device: Any, *, non_blocking: bool) -> Any:
            moved.append((str(device), non_blocking))
            return self

    found = list(Prefetcher([Batch(), UserDict(inside=Batch())], torch.device("cpu")))
    assert moved == [("cpu", True)] * 2
    assert isinstance(found[1]["inside"], Batch)
    assert len(Prefetcher([1, 2, 3], "cpu")) == 3
    with pytest.raises(TypeError):
        len(Prefetcher(iter([1]), "cpu"))


def test_tensors_inside_a_batch_type_are_found() -> None:
    batch = PinnableBatch(torch.zeros(1), torch.ones(1))
    assert len(list(prefetcher.tensors_in([batch, {"x": torch.zeros(2)}, 3]))) == 3


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
    assert {row["way"] for row in found["transfers"]} == {
        *("to", "to-non-blocking", "pin-then-to", "pin-then-blocking", "pin-alone", "pinned-blocking", "pinned-ahead")
    }
    assert all(0 < row["min_us"] <= row["median_us"] <= row["max_us"] for row in found["transfers"])
    assert len(found["many"]) == 7 + 5 + 1
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
    ("content", "sentence"),
    [
        (None, "cannot be read"),
        ("{", "no JSON"),
        ("{}", "not written by"),
        ('{"schema": "overlapscope.transfers/2"}', "lacks"),
    ],
)
def test_what_is_no_sweep_is_said(content: str | None, sentence: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "sweep.json").write_text(content)
    result = CliRunner().invoke(app, ["transfers", str(tmp_path / "sweep.json"), "-o", str(tmp_path / "f.png")])
    assert (result.exit_code, sentence in result.stderr) == (2, True)
