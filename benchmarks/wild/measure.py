"""Time and record one loop as it is and fixed, on a machine with a GPU, and compare their answers.

    python -m benchmarks.wild.measure NAME OUT [--device cpu]

Both are built from the same seed and in one process. OUT gets ``NAME.json`` and the scrubbed traces ``NAME.json.gz``
and ``NAME-fixed.json.gz``. The second is recorded when the process was profiled before, and its times have the cost of
that.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from benchmarks.wild.catalogue import NAMES, loop
from benchmarks.wild.loop import Loop, Step
from overlapscope import annotate, record
from overlapscope.scrub.kineto import scrub_kineto
from overlapscope.workloads.harness import in_turns_ns, walls_ns

SAME_STEPS = 3  # whose answers are compared: a training's later ones rest on the earlier
TURNS, FEWER_TURNS = 10, 5
LONG_NS = 300_000_000  # a step that is timed fewer times
RECORDED = 2
THREADS = 8  # of torch on the CPU, whatever the host has: a container may be allowed far fewer cores than it sees


def answers(step: Step) -> torch.Tensor:
    return torch.stack([step().detach().double().cpu() for _ in range(SAME_STEPS)])


def compared(before: torch.Tensor, after: torch.Tensor) -> dict[str, Any]:
    """How far apart answers are; see `benchmarks.wild.results.Answers`."""
    off, largest = (before - after).abs(), before.abs().max().item()
    apart = float(off.max().item()) / (largest or 1.0)
    return {"equal": torch.equal(before, after), "differing": (off != 0).double().mean().item(), "apart": apart}


def built(of: Loop, device: str, *, fixed: bool) -> Step:
    torch.manual_seed(0)
    return of.make(fixed, device)


def until_done(step: Step, device: str) -> Step:
    def run() -> torch.Tensor:
        answer = step()
        if device == "cuda":
            torch.cuda.synchronize()
        return answer

    return run


def annotated(step: Step) -> Step:
    def run() -> torch.Tensor:
        with annotate("step"):
            return step()

    return run


def measured(name: str, out: Path, device: str) -> dict[str, Any]:
    of = loop(name)
    both = [until_done(built(of, device, fixed=fixed), device) for fixed in (False, True)]
    given = [answers(step) for step in both]
    facts: dict[str, Any] = {"name": name, "text": asdict(of.text), "version": version(of.text.package)}
    facts["answers"] = compared(*given)
    if of.reference is not None:
        torch.manual_seed(0)
        truth = answers(of.reference(device))
        facts["reference"] = {way: compared(truth, each) for way, each in zip(("before", "after"), given, strict=True)}
    turns = TURNS if walls_ns(both[0], 1, 0)[0] < LONG_NS else FEWER_TURNS
    walls = in_turns_ns(both, turns, warmup=1)
    facts["before_ms"], facts["after_ms"] = (round(statistics.median(each) / 1e6, 3) for each in walls)
    facts["spread_ms"] = [[round(min(each) / 1e6, 3), round(max(each) / 1e6, 3)] for each in walls]
    write(facts, out)
    recorded(both[0], out / f"{name}.json.gz", device, unprofiled=turns)
    recorded(both[1], out / f"{name}-fixed.json.gz", device, unprofiled=0)
    return facts


def recorded(step: Step, path: Path, device: str, unprofiled: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / path.name
        with record(raw, steps=RECORDED, warmup=2, unprofiled=unprofiled, device=device) as recording:
            recording.run(annotated(step))
        scrub_kineto(raw, path)


def write(facts: dict[str, Any], out: Path) -> None:
    facts["machine"] = {"gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none"}
    facts["machine"]["torch"] = torch.__version__
    (out / f"{facts['name']}.json").write_text(json.dumps(facts, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=NAMES, metavar="NAME")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(THREADS)
    print(json.dumps(measured(options.name, options.out, options.device)))


if __name__ == "__main__":
    main()
