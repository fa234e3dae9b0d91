"""The harness of all workloads: named variants, sizes, a timed pass, a recorded pass, a command line."""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar, get_type_hints

from overlapscope.capture.machine import require_cuda, require_torch
from overlapscope.capture.recorder import record
from overlapscope.errors import CaptureError, OverlapscopeError

ChoicesT = TypeVar("ChoicesT")
SizesT = TypeVar("SizesT")


@dataclass(frozen=True)
class Program:
    """A variant with its buffers allocated, ready to run.

    ``run`` does one pass and synchronises. ``result`` is the result of the last pass, equal for all variants that
    compute the same. ``facts`` returns other measurements of the passes.
    """

    run: Callable[[], None]
    result: Callable[[], object]
    facts: Callable[[], dict[str, Any]] = dict


def counting_program(run: Callable[[], None], read: list[float], count: int, what: str) -> Program:
    """A program that reads the numbers 1 to ``count`` in each pass, and counts how many of those ``read`` are wrong."""

    def facts() -> dict[str, Any]:
        wrong = sum(value != 1 + number % count for number, value in enumerate(read))
        return {f"{what}_read": len(read), f"{what}_wrong": wrong}

    return Program(run, result=lambda: read[-count:], facts=facts)


@dataclass(frozen=True)
class BatchSizes:
    """Sizes of a pass over batches, for a data-centre GPU."""

    batches: int = 4
    batch_mib: int = 64
    matmuls: int = 4  # per batch
    width: int = 4096  # of the square float32 matrices


@dataclass(frozen=True)
class Variant(Generic[ChoicesT]):
    """One way to write the program, and the name of the variant that fixes its problem."""

    name: str
    choices: ChoicesT
    summary: str
    fixed_by: str | None = None


@dataclass(frozen=True)
class Workload(Generic[ChoicesT, SizesT]):
    """A program with an overlap problem, with all its variants.

    ``choices`` and ``sizes`` are frozen dataclasses: their fields are the options of the command line. Sizes are 1 at
    least; a field's metadata may say ``least``.
    """

    module: str
    question: str
    variants: tuple[Variant[ChoicesT], ...]
    sizes: SizesT
    on_cpu: SizesT
    make: Callable[[ChoicesT, SizesT, str], Program]

    @property
    def name(self) -> str:
        """The last part of the module's name."""
        return self.module.rpartition(".")[2]

    def variant(self, name: str) -> Variant[ChoicesT]:
        """The variant of that name; KeyError where there is none."""
        return {variant.name: variant for variant in self.variants}[name]

    def build(
        self, choices: ChoicesT | str | None = None, device: str = "cuda", sizes: SizesT | None = None
    ) -> Program:
        """Allocate the buffers of a variant, given by name or by choices; by default the first variant.

        Raises:
            CaptureError: torch or another package is missing, or there is no GPU and ``device`` is one.
        """
        use_device(device)
        if choices is None or isinstance(choices, str):
            choices = self.variant(choices or self.variants[0].name).choices
        return self.make(choices, sizes or self.usual_sizes(device), device)

    def usual_sizes(self, device: str) -> SizesT:
        """The default sizes for a device."""
        return self.on_cpu if device == "cpu" else self.sizes

    def measure(
        self, choices: ChoicesT | str | None = None, device: str = "cuda", repeats: int = 9, sizes: SizesT | None = None
    ) -> dict[str, Any]:
        """Time a variant without a profiler; returns the figures of `measure` and the program's facts."""
        program = self.build(choices, device, sizes)
        return measure(program.run, repeats) | program.facts()


def use_device(device: str) -> None:
    """Make ``device`` the current device of torch.

    Raises:
        CaptureError: torch is missing, or there is no such device.
    """
    require_torch()
    if device == "cpu":
        return
    if not re.fullmatch(r"cuda(:\d+)?", device):
        raise CaptureError(f"no device {device!r}: there are cuda, cuda:1 and so on, and cpu")
    require_cuda()
    import torch

    if (torch.device(device).index or 0) >= torch.cuda.device_count():
        raise CaptureError(f"no device {device!r}: there are {torch.cuda.device_count()} GPUs here")
    torch.cuda.set_device(device if ":" in device else "cuda:0")


def measure(run: Callable[[], None], repeats: int = 9, warmup: int = 3) -> dict[str, Any]:
    """Time passes without a profiler.

    Returns:
        ``median_ms``, ``min_ms``, ``max_ms`` of the wall time of ``repeats`` passes, and ``repeats``.
    """
    return spread(walls_ns(run, repeats, warmup), "ms", 1e6) | {"repeats": repeats}


def walls_ns(run: Callable[[], object], repeats: int, warmup: int) -> list[int]:
    """The wall time of each of ``repeats`` calls in ns, after some warm-up calls."""
    for _ in range(warmup):
        run()
    walls = []
    for _ in range(repeats):
        begin = time.perf_counter_ns()
        run()
        walls.append(time.perf_counter_ns() - begin)
    return walls


_TURN, _WARMUP = 5, 2  # timed calls of one program in a row, and warm-up calls before them


def in_turns_ns(runs: Sequence[Callable[[], object]], repeats: int, warmup: int) -> list[list[int]]:
    """The wall time of each of ``repeats`` calls of several programs in ns, measured in turns of some calls each.

    The speed of a host drifts, so programs that are compared are timed in turns. Every turn begins with warm-up calls,
    since the other programs have evicted the caches.
    """
    for run in runs:
        walls_ns(run, 0, warmup)
    walls: list[list[int]] = [[] for _ in runs]
    while len(walls[0]) < repeats:
        for run, timed in zip(runs, walls, strict=True):
            timed.extend(walls_ns(run, min(_TURN, repeats - len(timed)), _WARMUP))
    return walls


def spread(walls: Sequence[int], unit: str, unit_ns: float) -> dict[str, float]:
    """Median, minimum and maximum wall time: ``median_UNIT``, ``min_UNIT`` and ``max_UNIT``."""
    figures = {"median": statistics.median(walls), "min": min(walls), "max": max(walls)}
    return {f"{name}_{unit}": round(value / unit_ns, 3) for name, value in figures.items()}


def main(workload: Workload[Any, Any], argv: Sequence[str] | None = None) -> None:
    """The command line of a workload: time a variant, print JSON, and record a pass on request."""
    options = _parser(workload).parse_args(argv)
    if options.list:
        for variant in workload.variants:
            print(f"{variant.name:40} {variant.summary}")  # noqa: T201 - what was asked for
        return
    try:
        name, choices = _chosen(workload, options)
        sizes = _changed(workload.usual_sizes(options.device), options)
        recording = None
        if options.trace is not None:
            recording = record(options.trace, steps=1, device=options.device, stacks=options.stacks)
        elif options.bracket:
            require_cuda()
            recording = record(None, steps=1, device=options.device)
        if recording is not None:
            recording.check()
        program, *others = (workload.build(each, options.device, sizes) for each in (choices, *options.beside))
        result = {"workload": workload.name, "variant": name, "device": options.device}
        figures = measure(program.run, options.repeats) | program.facts()
        if others:
            walls = in_turns_ns([each.run for each in (program, *others)], options.repeats, warmup=2)
            medians = (spread(each, "ms", 1e6)["median_ms"] for each in walls)
            figures["in_turns_ms"] = dict(zip((name, *options.beside), medians, strict=True))
        print(json.dumps(result | figures), flush=True)  # noqa: T201
        if recording is not None:
            with recording:
                recording.run(program.run)
    except (OverlapscopeError, RuntimeError) as error:
        print(f"{workload.name}: {error}", file=sys.stderr)  # noqa: T201
        raise SystemExit(2) from error


def _parser(workload: Workload[Any, Any]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {workload.module}", description=workload.question, allow_abbrev=False
    )
    names = [variant.name for variant in workload.variants]
    parser.add_argument("--list", action="store_true", help="list the variants and exit")
    parser.add_argument("--variant", choices=names, metavar="NAME", help=f"one of --list; default: {names[0]}")
    parser.add_argument(
        "--beside",
        choices=names,
        nargs="+",
        default=(),
        metavar="NAME",
        help="time these variants too, in turns and in the same process",
    )
    choices = parser.add_argument_group("a custom variant", "changes to the named one")
    for name, kind in get_type_hints(type(workload.variants[0].choices)).items():
        _add_choice(choices, name, kind)
    sizes = parser.add_argument_group("sizes", "amount of work in a pass")
    for field in fields(workload.sizes):
        default = f"{getattr(workload.sizes, field.name)}, {getattr(workload.on_cpu, field.name)} on a cpu"
        kind = partial(_at_least, field.metadata.get("least", 1))
        sizes.add_argument(_flag(field.name), type=kind, metavar="N", help=default)
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to try the program without a GPU")
    parser.add_argument("--repeats", type=positive, default=9, metavar="N", help="passes to time; default: 9")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="record a pass into this Kineto trace")
    parser.add_argument("--stacks", action="store_true", help="with --trace: Python call stacks too")
    parser.add_argument("--bracket", action="store_true", help="bracket a pass for nsys profile -c cudaProfilerApi")
    return parser


def _add_choice(group: argparse._ArgumentGroup, name: str, kind: Any) -> None:
    if kind is bool:
        no = [f"--no-{name.replace('_', '-')}", f"--non-{name.replace('_', '-')}"]
        group.add_argument(_flag(name), dest=name, action="store_const", const=True)
        group.add_argument(*no, dest=name, action="store_const", const=False)
    elif issubclass(kind, StrEnum):
        group.add_argument(_flag(name), type=kind, choices=list(kind))
    else:
        raise TypeError(f"no option for a choice of type {kind}")


def _chosen(workload: Workload[Any, Any], options: argparse.Namespace) -> tuple[str, Any]:
    """The selected choices, and the name of their variant; ``custom`` where it has none."""
    start = workload.variant(options.variant or workload.variants[0].name).choices
    choices = _changed(start, options)
    named = [variant.name for variant in workload.variants if variant.choices == choices]
    return (named[0] if named else "custom"), choices


def _changed(values: Any, options: argparse.Namespace) -> Any:
    """A frozen dataclass with the fields replaced that were given as options."""
    given: Mapping[str, Any] = {field.name: getattr(options, field.name) for field in fields(values)}
    return replace(values, **{name: value for name, value in given.items() if value is not None})


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def positive(text: str) -> int:
    """Parse a positive integer, for argparse."""
    return _at_least(1, text)


def _at_least(least: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"no whole number: {text!r}") from None
    if number < least:
        raise argparse.ArgumentTypeError(f"at least {least}")
    return number


NAMES = (
    "gemm_copy",
    "moe_prefetch",
    "moe_sparse",
    "pinning_guide",
    "dataloader_train",
    "prefetcher",
    "offload",
    "scalar_reads",
    "page_locking",
    "copy_order",
    "self_wait",
    "host_round_trip",
    "staging_buffer",
    "freed_memory",
    "zero_copy",
)


def workloads() -> list[Workload[Any, Any]]:
    """Every workload. Importing them needs no torch; running them does."""
    return [import_module(f"overlapscope.workloads.{name}").WORKLOAD for name in NAMES]
