"""Count how often programs whose copies race compute something else, on a machine with one GPU and transformers.

    python -m benchmarks.races --out FOLDER [--repeats 20] [--device cpu]

FOLDER gets a recording of each program and ``results.json``. With ``--device cpu`` nothing can race: it tries the
program out, with the smallest sizes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from benchmarks.races import caches, twins
from overlapscope.capture.machine import versions
from overlapscope.workloads.harness import positive, use_device

SCHEMA = "overlapscope.races/1"


def measured(out: Path, device: str, repeats: int) -> dict[str, Any]:
    """Everything, with what it was measured on."""
    use_device(device)
    out.mkdir(parents=True, exist_ok=True)
    gpu = "" if device == "cpu" else torch.cuda.get_device_name()
    return {
        "schema": SCHEMA,
        "gpu": gpu,
        "device": device,
        "versions": versions(),
        "repeats": repeats,
        "workloads": {each.workload: twins.measured(each, out, device, repeats) for each in twins.ALL},
        "caches": caches.measured(out, device, repeats),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--repeats", type=positive, default=20, metavar="N", help="runs of each program; default: 20")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options = parser.parse_args(arguments)
    results = measured(options.out, options.device, options.repeats)
    (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
