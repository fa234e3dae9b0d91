"""How good are the predictions? Every faulty program, changed in the replay, against its twin that was really mended.

    python benchmarks/prediction.py                 # a table, from traces that `overlapscope.record` made
    python benchmarks/prediction.py --traces nsys   # from Nsight Systems traces; plain: from torch's profiler by itself

The predictions are without the profiler's own cost as far as the trace knows it, and what they are compared with is the
mended program's time without a profiler: from ``sample_traces/truth.json``; for the programs of ``benchmarks/pairs``
from the ``truth.json`` there.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from overlapscope import open_trace, what_if
from overlapscope.whatif.prediction import Prediction

WITHIN = 0.06
KINETO, NSYS = "json.gz", "sqlite.gz"
RECORDED = Path(__file__).resolve().parent / "pairs"
SAMPLES = RECORDED.parent.parent / "sample_traces"


@dataclass(frozen=True)
class Pair:
    """A faulty sample, its mended twin, and the changes that lead from the one to the other."""

    faulty: str
    mended: str
    changes: tuple[str, ...]


PIN, ASYNC, SIDE, READ = "pin", "non-blocking", "side-stream", "no-host-read"
PAIRS = tuple(
    Pair(f"{workload}-{faulty}", f"{workload}-{mended}", changes)
    for workload, faulty, mended, changes in (
        ("gemm_copy", "pageable-copy-first-non-blocking-side", "pinned-copy-first-non-blocking-side", (PIN,)),
        ("gemm_copy", "pageable-kernels-first-non-blocking-side", "pinned-kernels-first-non-blocking-side", (PIN,)),
        ("gemm_copy", "pageable-copy-first-non-blocking-same", "pinned-copy-first-non-blocking-same", (PIN,)),
        ("gemm_copy", "pageable-copy-first-blocking-same", "pinned-copy-first-blocking-same", (PIN,)),
        ("gemm_copy", "pageable-copy-first-blocking-same", "pinned-copy-first-non-blocking-side", (PIN, ASYNC, SIDE)),
        ("gemm_copy", "pinned-copy-first-blocking-same", "pinned-copy-first-non-blocking-same", (ASYNC,)),
        ("gemm_copy", "pinned-copy-first-non-blocking-same", "pinned-copy-first-non-blocking-side", (SIDE,)),
        ("gemm_copy", "pinned-kernels-first-non-blocking-same", "pinned-kernels-first-non-blocking-side", (SIDE,)),
        ("moe_prefetch", "pageable", "pinned", (PIN,)),
        ("moe_prefetch", "pageable", "pinned-non-blocking", (PIN, ASYNC)),
        ("moe_prefetch", "pinned", "pinned-non-blocking", (ASYNC,)),
        ("moe_prefetch", "pinned-non-blocking", "no-host-routing", (READ,)),
        ("moe_prefetch", "pageable-non-blocking", "pinned-non-blocking", (PIN,)),
        ("moe_prefetch", "pinned-non-blocking", "ahead", ("prefetch", READ)),
        ("moe_prefetch", "pageable", "ahead", (PIN, "prefetch", READ)),
        ("offload", "pageable-same", "pinned-same", (PIN, ASYNC)),
        ("offload", "pageable-same", "pinned-side", (PIN, ASYNC, SIDE)),
        ("offload", "pageable-side", "pinned-side", (PIN, ASYNC)),
        ("offload", "pinned-same", "pinned-side", (SIDE,)),
        ("prefetcher", "blocking", "non-blocking", (PIN, ASYNC)),
        ("prefetcher", "blocking", "prefetcher", (PIN, "prefetch")),
        ("prefetcher", "non-blocking", "prefetcher", ("prefetch",)),
        ("prefetcher", "prefetcher-pageable", "prefetcher", (PIN,)),
        ("pinning_guide", "to", "pinned-ahead", (PIN, ASYNC)),
        ("pinning_guide", "to-non-blocking", "pinned-ahead", (PIN,)),
        ("pinning_guide", "concurrent-pageable", "concurrent", (PIN,)),
        ("pinning_guide", "concurrent-one-stream", "concurrent", (SIDE,)),
        ("pinning_guide", "list-to", "list-pinned-ahead", (PIN, ASYNC)),
        ("pinning_guide", "list-to-non-blocking", "list-pinned-ahead", (PIN,)),
        ("pinning_guide", "tensordict-to", "tensordict-pinned-ahead", (PIN, ASYNC)),
        ("pinning_guide", "tensordict-to-non-blocking", "tensordict-pinned-ahead", (PIN,)),
        ("pinning_guide", "list-to", "coalesced", ("coalesce",)),
        ("pinning_guide", "list-to-non-blocking", "coalesced", ("coalesce",)),
        ("pinning_guide", "list-pinned-ahead", "coalesced", ("coalesce",)),
        ("pinning_guide", "tensordict-to", "coalesced", ("coalesce",)),
        ("dataloader_train", "pageable-blocking", "pinned-blocking", (PIN,)),
        ("dataloader_train", "pageable-blocking", "pinned-non-blocking", (PIN, ASYNC)),
        ("dataloader_train", "pageable-non-blocking", "pinned-non-blocking", (PIN,)),
        ("dataloader_train", "custom-not-pinned", "custom-pinned", (PIN,)),
        ("dataloader_train", "pinned-blocking", "pinned-non-blocking", (ASYNC,)),
        ("dataloader_train", "pinned-item", "pinned-non-blocking", (READ,)),
        ("scalar_reads", "item", "item-deferred", (READ,)),
        ("scalar_reads", "cpu", "cpu-deferred", (READ,)),
        ("scalar_reads", "nonzero", "nonzero-deferred", (READ,)),
    )
)


def _named(changes_of: dict[str, tuple[str, ...]]) -> tuple[Pair, ...]:
    return tuple(Pair(f"{name}-faulty", f"{name}-mended", changes) for name, changes in changes_of.items())


PROGRAMS = _named(
    {
        "launch_bound": ("graph",),
        "training": (PIN, ASYNC, READ),
        "backward_pageable": (PIN, ASYNC),
        "no_distance": ("prefetch",),
        "up_and_down": (SIDE,),
        "device_allocations": ("preallocate",),
        "small_copies": ("coalesce",),
    }
)
BLIND = _named(
    {
        "image_validation": (PIN, ASYNC, READ),
        "embedding_rows": (PIN, ASYNC),
        "kv_round_trip": (SIDE,),
        "kv_offload": (PIN, ASYNC, SIDE),
        "weights_streamed": ("prefetch=2",),
        "producer_thread": (SIDE,),
        "gradient_offload": (PIN,),
        "layer_metrics": (READ,),
        "evaluation_results": (ASYNC,),
        "rnn_cells": ("graph",),
        "greedy_decoding": ("graph", READ),
        "ragged_batches": ("preallocate",),
        "loss_each_batch": ("prefetch=1",),
        "ragged_tokens": ("coalesce",),
    }
)
UNSEEN = _named(
    {
        "video_upscaling": (PIN,),
        "audio_features": (ASYNC,),
        "tabular_training": (PIN, ASYNC, "graph"),
        "activation_offload": (SIDE,),
        "optimizer_states": (PIN, ASYNC, SIDE),
        "expert_weights": ("prefetch=1",),
        "gradient_accumulation": (PIN, ASYNC, "prefetch=2", READ),
        "diffusion_sampling": (READ,),
        "point_clouds": (PIN, ASYNC, READ),
        "rollout": (PIN, ASYNC),
        "recommender_features": ("coalesce",),
        "lora_requests": ("coalesce",),
        "ode_solver": ("graph",),
        "growing_history": ("preallocate",),
    }
)
THIRD = _named(
    {
        "graph_sampling": (PIN,),
        "offloaded_blocks": (ASYNC, SIDE, "prefetch=1"),
        "scan_denoising": (SIDE,),
        "wave_snapshots": (PIN, ASYNC, SIDE),
        "pressure_solver": (READ, "graph"),
        "molecular_dynamics": ("graph",),
        "multi_agent_replay": ("coalesce", "graph"),
        "detected_crops": ("coalesce",),
        "scene_tiles": ("preallocate",),
        "speech_chunks": (ASYNC,),
        "distillation": (PIN, ASYNC),
        "parameter_server": (ASYNC, SIDE),
        "clustering": (READ,),
        "paged_serving": (READ, "coalesce"),
        "weather_forcing": (PIN, ASYNC, SIDE, "prefetch=2"),
        "template_matching": (READ, "preallocate"),
    }
)
FOURTH = _named(
    {
        "lora_finetuning": (PIN, ASYNC, READ),
        "vision_transformer": (PIN, ASYNC, SIDE, "prefetch=1"),
        "speculative_decoding": ("graph:range=draft",),
        "video_grading": (PIN, ASYNC, SIDE),
        "averaged_weights": (PIN, ASYNC, SIDE),
        "molecule_batches": ("coalesce", READ),
        "policy_epochs": ("graph", READ),
        "ranking_service": (PIN, ASYNC),
        "streamed_vocoder": (PIN, ASYNC),
        "guided_diffusion": ("coalesce", ASYNC),
        "speech_training": (READ,),
        "quantised_prefix": (ASYNC, SIDE, "prefetch=2"),
        "lattice_fluid": ("graph", PIN, ASYNC),
        "tiled_decoder": ("preallocate", PIN, ASYNC),
        "radar_bursts": (PIN, ASYNC),
        "beam_search": (READ,),
    }
)
TWO_GPUS = _named(
    {
        "pipeline_stages": (SIDE,),
        "replicas": (PIN,),
        "thread_per_gpu": (PIN, ASYNC),
        "checked_halves": (READ,),
        "streamed_halves": ("prefetch=2",),
        "coupled_models": ("graph",),
        "two_towers": ("coalesce", READ),
    }
)


@dataclass(frozen=True)
class Outcome:
    """What was predicted for a pair, in ms, and what really came of it.

    ``timed`` is another time of the faulty program, by its recording's own process; None where it has none.
    """

    pair: Pair
    measured: float
    unchanged: float
    predicted: float
    low: float
    high: float
    before: float
    real: float
    timed: float | None

    @property
    def error(self) -> float:
        """Share by which the prediction is too long."""
        return self.predicted / self.real - 1


def outcomes(suffix: str) -> Iterator[Outcome]:
    walls = json.loads((SAMPLES / "truth.json").read_text())["unprofiled_wall"]
    for pair in PAIRS:
        trace = open_trace(SAMPLES / f"{pair.faulty}.{suffix}")
        found = what_if(trace, pair.changes, pair.faulty.partition("-")[0])
        in_turns = walls[pair.faulty].get("in_turns_ms", {}) if suffix == KINETO else {}  # in the process that it shows
        before, after = (
            in_turns.get(name.partition("-")[2], walls[name]["median_ms"]) for name in (pair.faulty, pair.mended)
        )
        yield _outcome(pair, found, before, after)


def of_programs(pairs: tuple[Pair, ...], suffix: str = f".{KINETO}") -> Iterator[Outcome]:
    """Programs with traces of their own."""
    truth = json.loads((RECORDED / "truth.json").read_text())
    for pair in pairs:
        walls = truth[pair.faulty.partition("-")[0]]
        found = what_if(open_trace(RECORDED / f"{pair.faulty}{suffix}"), pair.changes, "step")
        yield _outcome(pair, found, walls["before_ms"], walls["after_ms"])


def _outcome(pair: Pair, found: Prediction, before_ms: float, real_ms: float) -> Outcome:
    """What came of a pair, per step."""
    steps = len(found.window.start_ns)
    said = found.own
    figures = (found.measured_ns, said.simulated_ns, said.predicted_ns, said.low_ns, said.high_ns)
    measured, unchanged, predicted, low, high = (ns / 1e6 / steps for ns in figures)
    recording = found.trace.metadata.recording
    own = recording.unprofiled if recording is not None and recording.issue_profiled is not None else None
    timed = None if own is None else own.step_ns / 1e6  # other tools slow what is timed outside of their traces too
    return Outcome(pair, measured, unchanged, predicted, low, high, before_ms, real_ms, timed)


def table(rows: list[Outcome]) -> Iterator[str]:
    yield "| from, to | changes | error | predicted, ms | low to high | really | before | unchanged |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        workload, _, faulty = row.pair.faulty.partition("-")
        names = f"{workload}: {faulty}, {row.pair.mended.removeprefix(workload + '-')}"
        before, unchanged, predicted, low, high, real = (
            f"{ms:.1f}" for ms in (row.before, row.unchanged, row.predicted, row.low, row.high, row.real)
        )
        bounds = f"{low} to {high}" if low != high else ""
        figures = (
            f"{100 * row.error:+.1f}\N{NO-BREAK SPACE}% | {predicted} | {bounds} | {real} | {before} | {unchanged}"
        )
        yield f"| {names} | {', '.join(row.pair.changes)} | {figures} |"


def summary(rows: list[Outcome]) -> str:
    errors = sorted(abs(row.error) for row in rows)
    within = sum(error <= WITHIN for error in errors)
    unchanged = statistics.median(abs(row.unchanged / row.before - 1) for row in rows)
    timed = [abs(row.timed / row.before - 1) for row in rows if row.timed is not None]
    noise = f", and so is another time of that program {100 * statistics.median(timed):.1f} %" if timed else ""
    return (
        f"{len(rows)} pairs: median error {100 * statistics.median(errors):.1f} %, "
        f"{within} within {100 * WITHIN:.0f} %, "
        f"worst {100 * errors[-1]:.0f} %; the unchanged replay is {100 * unchanged:.1f} % "
        f"from the faulty program's own time at the median{noise}"
    )


TABLES: dict[str, Callable[[], list[Outcome]]] = {
    "recorded": lambda: [
        *outcomes(KINETO),
        *of_programs(PROGRAMS),
        *of_programs(BLIND),
        *of_programs(UNSEEN),
        *of_programs(THIRD),
        *of_programs(FOURTH),
        *of_programs(TWO_GPUS),
    ],
    "nsys": lambda: [
        *outcomes(NSYS),
        *of_programs(BLIND, f".{NSYS}"),
        *of_programs(UNSEEN, f".{NSYS}"),
        *of_programs(THIRD, f".{NSYS}"),
        *of_programs(FOURTH, f".{NSYS}"),
        *of_programs(TWO_GPUS, f".{NSYS}"),
    ],
    "plain": lambda: [
        *of_programs(BLIND, "-plain.json.gz"),
        *of_programs(UNSEEN, "-plain.json.gz"),
        *of_programs(THIRD, "-plain.json.gz"),
        *of_programs(FOURTH, "-plain.json.gz"),
        *of_programs(TWO_GPUS, "-plain.json.gz"),
    ],
}
"""Kineto traces with a calibration, Nsight Systems traces, and what torch's profiler makes by itself."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", choices=TABLES, default="recorded", help="which traces of the faulty programs")
    options = parser.parse_args()
    rows = TABLES[options.traces]()
    print("\n".join(table(rows)))
    print("\n" + summary(rows))


if __name__ == "__main__":
    main()
