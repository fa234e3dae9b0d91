"""How good are the predictions? Each faulty program, fixed in the simulation, against the program really fixed.

    python benchmarks/prediction.py                 # a table, from traces that `overlapscope record` made
    python benchmarks/prediction.py --traces nsys   # from Nsight Systems traces; plain: from torch's profiler by itself
    python benchmarks/prediction.py --write         # all of them, to benchmarks/predictions.json; then `make docs`

Predictions are without the profiler's own cost as far as the trace knows it. They are compared with what the fixed
program takes without a profiler: ``truth.json`` in ``sample_traces``, and in ``benchmarks/pairs``.

The tree has the smaller recordings of ``benchmarks/pairs``. This brings all of them back (44 MB):

    git restore --source=232708c61ed1f8cba3fe0ff2f3751c83d673890a -- 'benchmarks/pairs/*.gz'

In a shallow clone, after ``git fetch --depth 1 origin 232708c61ed1f8cba3fe0ff2f3751c83d673890a``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.outcomes import FILE, Outcome, Outcomes, Summary, table
from overlapscope import open_trace, what_if
from overlapscope.whatif.prediction import Prediction

RECORDINGS = "232708c61ed1f8cba3fe0ff2f3751c83d673890a"
"""The commit that has all recordings of ``benchmarks/pairs``."""
RESTORE = f"git restore --source={RECORDINGS} -- 'benchmarks/pairs/*.gz'"
RECORDED = Path(__file__).resolve().parent / "pairs"
SAMPLES = RECORDED.parent.parent / "sample_traces"


@dataclass(frozen=True)
class Pair:
    """A faulty program, the fixed one, and the changes that lead from the one to the other."""

    faulty: str
    fixed: str
    changes: tuple[str, ...]


PIN, ASYNC, SIDE, READ = "pin", "non-blocking", "side-stream", "no-scalar-sync"
PAIRS = tuple(
    Pair(f"{workload}-{faulty}", f"{workload}-{fixed}", changes)
    for workload, faulty, fixed, changes in (
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
        ("moe_sparse", "as-asked", "pinned", (PIN,)),
        ("moe_sparse", "as-asked", "ahead", (PIN, READ)),
        ("offload", "pageable-same", "pinned-same", (PIN, ASYNC)),
        ("offload", "pageable-same", "pinned-side", (PIN, ASYNC, SIDE)),
        ("offload", "pageable-side", "pinned-side", (PIN, ASYNC)),
        ("offload", "pinned-same", "pinned-side", (SIDE,)),
        ("prefetcher", "blocking", "non-blocking", (PIN, ASYNC)),
        ("prefetcher", "blocking", "prefetcher", (PIN, "prefetch")),
        ("prefetcher", "non-blocking", "prefetcher", ("prefetch",)),
        ("prefetcher", "prefetcher-pageable", "prefetcher", (PIN,)),
        ("pinning_guide", "pin-then-to", "pinned-ahead", ("pin-ahead",)),
        ("pinning_guide", "list-pin-then-to", "list-pinned-ahead", ("pin-ahead",)),
        ("pinning_guide", "tensordict-pin-then-to", "tensordict-pinned-ahead", ("pin-ahead",)),
        ("pinning_guide", "pin-then-blocking", "pinned-ahead", ("pin-ahead", ASYNC)),
        ("pinning_guide", "pinned-blocking", "pinned-ahead", (ASYNC,)),
        ("pinning_guide", "to", "pinned-ahead", (PIN, ASYNC)),
        ("pinning_guide", "to-non-blocking", "pinned-ahead", (PIN,)),
        ("pinning_guide", "concurrent-pageable", "concurrent", (PIN,)),
        ("pinning_guide", "concurrent-one-stream", "concurrent", (SIDE,)),
        ("pinning_guide", "list-to", "list-pinned-ahead", (PIN, ASYNC)),
        ("pinning_guide", "list-to-non-blocking", "list-pinned-ahead", (PIN,)),
        ("pinning_guide", "tensordict-to", "tensordict-pinned-ahead", (PIN, ASYNC)),
        ("pinning_guide", "tensordict-to-non-blocking", "tensordict-pinned-ahead", (PIN,)),
        ("pinning_guide", "list-to", "coalesced", ("batch-copies",)),
        ("pinning_guide", "list-to-non-blocking", "coalesced", ("batch-copies",)),
        ("pinning_guide", "list-pinned-ahead", "coalesced", ("batch-copies",)),
        ("pinning_guide", "tensordict-to", "coalesced", ("batch-copies",)),
        ("dataloader_train", "pageable-blocking", "pinned-blocking", (PIN,)),
        ("dataloader_train", "pageable-blocking", "pinned-non-blocking", (PIN, ASYNC)),
        ("dataloader_train", "pageable-non-blocking", "pinned-non-blocking", (PIN,)),
        ("dataloader_train", "custom-not-pinned", "custom-pinned", (PIN,)),
        ("dataloader_train", "pinned-blocking", "pinned-non-blocking", (ASYNC,)),
        ("dataloader_train", "pinned-item", "pinned-non-blocking", (READ,)),
        ("dataloader_train", "article-loop", "article-loop-deferred", (READ,)),
        ("scalar_reads", "item", "item-deferred", (READ,)),
        ("scalar_reads", "cpu", "cpu-deferred", (READ,)),
        ("scalar_reads", "nonzero", "nonzero-deferred", (READ,)),
        ("page_locking", "each-step", "once", ("preallocate",)),
        ("copy_order", "weights-first", "ids-first", ("copy-first",)),
    )
)


def _named(changes_of: dict[str, tuple[str, ...]]) -> tuple[Pair, ...]:
    return tuple(Pair(f"{name}-faulty", f"{name}-fixed", changes) for name, changes in changes_of.items())


PROGRAMS = _named(
    {
        "launch_bound": ("cuda-graph",),
        "training": (PIN, ASYNC, READ),
        "backward_pageable": (PIN, ASYNC),
        "no_distance": ("prefetch",),
        "up_and_down": (SIDE,),
        "device_allocations": ("preallocate",),
        "small_copies": ("batch-copies",),
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
        "rnn_cells": ("cuda-graph",),
        "greedy_decoding": ("cuda-graph", READ),
        "ragged_batches": ("preallocate",),
        "loss_each_batch": ("prefetch=1",),
        "ragged_tokens": ("batch-copies",),
    }
)
UNSEEN = _named(
    {
        "video_upscaling": (PIN,),
        "audio_features": (ASYNC,),
        "tabular_training": (PIN, ASYNC, "cuda-graph"),
        "activation_offload": (SIDE,),
        "optimizer_states": (PIN, ASYNC, SIDE),
        "expert_weights": ("prefetch=1",),
        "gradient_accumulation": (PIN, ASYNC, "prefetch=2", READ),
        "diffusion_sampling": (READ,),
        "point_clouds": (PIN, ASYNC, READ),
        "rollout": (PIN, ASYNC),
        "recommender_features": ("batch-copies",),
        "lora_requests": ("batch-copies",),
        "ode_solver": ("cuda-graph",),
        "growing_history": ("preallocate",),
    }
)
THIRD = _named(
    {
        "graph_sampling": (PIN,),
        "offloaded_blocks": (ASYNC, SIDE, "prefetch=1"),
        "scan_denoising": (SIDE,),
        "wave_snapshots": (PIN, ASYNC, SIDE),
        "pressure_solver": (READ, "cuda-graph"),
        "molecular_dynamics": ("cuda-graph",),
        "multi_agent_replay": ("batch-copies", "cuda-graph"),
        "detected_crops": ("batch-copies",),
        "scene_tiles": ("preallocate",),
        "speech_chunks": (ASYNC,),
        "distillation": (PIN, ASYNC),
        "parameter_server": (ASYNC, SIDE),
        "clustering": (READ,),
        "paged_serving": (READ, "batch-copies"),
        "weather_forcing": (PIN, ASYNC, SIDE, "prefetch=2"),
        "template_matching": (READ, "preallocate"),
    }
)
FOURTH = _named(
    {
        "lora_finetuning": (PIN, ASYNC, READ),
        "vision_transformer": (PIN, ASYNC, SIDE, "prefetch=1"),
        "speculative_decoding": ("cuda-graph:within=draft",),
        "video_grading": (PIN, ASYNC, SIDE),
        "averaged_weights": (PIN, ASYNC, SIDE),
        "molecule_batches": ("batch-copies", READ),
        "policy_epochs": ("cuda-graph", READ),
        "ranking_service": (PIN, ASYNC),
        "streamed_vocoder": (PIN, ASYNC),
        "guided_diffusion": ("batch-copies", ASYNC),
        "speech_training": (READ,),
        "quantised_prefix": (ASYNC, SIDE, "prefetch=2"),
        "lattice_fluid": ("cuda-graph", PIN, ASYNC),
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
        "coupled_models": ("cuda-graph",),
        "two_towers": ("batch-copies", READ),
    }
)


SETS = {
    "workloads": PAIRS,
    "programs": PROGRAMS,
    "blind": BLIND,
    "unseen": UNSEEN,
    "third": THIRD,
    "fourth": FOURTH,
    "two_gpus": TWO_GPUS,
}
"""The workloads' sample traces, and the modules of ``benchmarks/pairs``."""
SUFFIXES = {"recorded": ".json.gz", "nsys": ".sqlite.gz", "plain": "-plain.json.gz"}
"""Kineto traces with a calibration, Nsight Systems traces, and what torch's profiler makes by itself."""
WITHOUT = {("programs", "nsys"), ("programs", "plain"), ("workloads", "plain")}
"""Sets that were not traced in all of these ways."""


def pairs_here(group: str, traces: str) -> Iterator[Pair]:
    """Of a set of programs, those whose recordings of this kind are in this tree."""
    return (pair for pair in traced(group, traces) if recording_path(group, traces, pair).exists())


OF_OPERATORS = frozenset({"pin-ahead"})
"""Changes that need operators, which Nsight Systems does not record."""


ONLY_KINETO = frozenset(
    {
        "moe_sparse-as-asked",
        "page_locking-each-step",
        "copy_order-weights-first",
        "pinning_guide-pinned-blocking",
        "dataloader_train-article-loop",
    }
)
"""Samples that were recorded by torch's profiler alone."""


def traced(group: str, traces: str) -> tuple[Pair, ...]:
    """Of a set of programs, those that were traced in this way."""
    pairs = () if (group, traces) in WITHOUT else SETS[group]
    return tuple(
        pair
        for pair in pairs
        if traces != "nsys" or not (OF_OPERATORS.intersection(pair.changes) or pair.faulty in ONLY_KINETO)
    )


def recording_path(group: str, traces: str, pair: Pair) -> Path:
    """The trace of the faulty program."""
    return (SAMPLES if group == "workloads" else RECORDED) / (pair.faulty + SUFFIXES[traces])


def missing() -> list[Path]:
    """Recordings that are not in this tree."""
    wanted = (
        recording_path(group, traces, pair) for traces in SUFFIXES for group in SETS for pair in traced(group, traces)
    )
    return [path for path in wanted if not path.exists()]


def outcome(group: str, traces: str, pair: Pair) -> Outcome:
    """What came of a pair, per step."""
    name = "step" if group != "workloads" else pair.faulty.partition("-")[0]
    found = what_if(open_trace(recording_path(group, traces, pair)), pair.changes, name)
    times = _sample_times(pair, traces) if group == "workloads" else _program_times(pair)
    return replace(outcome_of(found, (traces, group, pair.faulty, pair.fixed), times), changes=pair.changes)


def outcome_of(found: Prediction, named: tuple[str, str, str, str], times_ms: tuple[float, float]) -> Outcome:
    """What came of a prediction, per step: named by trace, group and both programs, with the times of these."""
    traces, group, faulty, fixed = named
    own, step_ms = found.unprofiled, 1e6 * len(found.window.start_ns)
    return Outcome(
        traces=traces,
        group=group,
        faulty=faulty,
        fixed=fixed,
        changes=tuple(map(str, found.changes)),
        measured_ms=found.measured_ns / step_ms,
        simulated_ms=own.simulated_ns / step_ms,
        predicted_ms=own.predicted_ns / step_ms,
        low_ms=own.low_ns / step_ms,
        high_ms=own.high_ns / step_ms,
        parts_ms={
            part.reason.name.lower(): (part.less_ns / step_ms, part.more_ns / step_ms) for part in own.estimate.parts
        },
        before_ms=times_ms[0],
        after_ms=times_ms[1],
        timed_ms=_timed(found),
        unprofiled=found.stated is own,
    )


def _timed(found: Prediction) -> float | None:
    """The faulty program's time by the process that recorded it.

    None of other tools' traces: they slow what is timed outside of them, too.
    """
    recording = found.trace.metadata.recording
    if recording is None or recording.unprofiled is None or recording.issue_profiled is None:
        return None
    return recording.unprofiled.step_ns / 1e6


def _sample_times(pair: Pair, traces: str) -> tuple[float, float]:
    """Of the faulty and the fixed workload, in turns, in the process that the trace shows, where there are such."""
    walls = json.loads((SAMPLES / "truth.json").read_text())["unprofiled_wall"]
    in_turns = walls[pair.faulty].get("in_turns_ms", {}) if traces == "recorded" else {}
    before, after = (
        float(in_turns.get(name.partition("-")[2], walls[name]["median_ms"])) for name in (pair.faulty, pair.fixed)
    )
    return before, after


def _program_times(pair: Pair) -> tuple[float, float]:
    truth = json.loads((RECORDED / "truth.json").read_text())[pair.faulty.partition("-")[0]]
    return truth["before_ms"], truth["after_ms"]


def outcomes(traces: str) -> Iterator[Outcome]:
    """Of all sets, by one kind of trace, as far as the recordings are in this tree."""
    return (outcome(group, traces, pair) for group in SETS for pair in pairs_here(group, traces))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", choices=SUFFIXES, default="recorded", help="which traces of the faulty programs")
    parser.add_argument("--write", action="store_true", help=f"all traces, to {FILE.name}")
    options = parser.parse_args()
    absent = f"{len(missing())} recordings of benchmarks/pairs are not here. All of them: {RESTORE}"
    if options.write:
        if missing():
            sys.exit(absent)
        rows = tuple(row for traces in SUFFIXES for row in outcomes(traces))
        FILE.write_text(Outcomes(RECORDINGS, datetime.datetime.now(datetime.UTC).date().isoformat(), rows).to_json())
        return
    found = list(outcomes(options.traces))
    print("\n".join(table(found)))
    print("\n" + Summary.of(found).sentence)
    if missing():
        print(absent)


if __name__ == "__main__":
    main()
