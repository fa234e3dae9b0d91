"""Make the sample traces again, on a machine with a GPU.

    python sample_traces/make.py --out sample_traces [--nsys-sqlite COMMAND]

COMMAND is called as ``COMMAND OUT.sqlite PROGRAM ARG ...`` and has to profile PROGRAM between its
cudaProfilerStart and cudaProfilerStop and export SQLite; without it, no Nsight Systems traces are made.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from overlapscope.capture.scrub import scrub_kineto, scrub_nsys
from overlapscope.workloads.gemm_copy import Variant, variants

MODULE = "overlapscope.workloads.gemm_copy"


def flags(variant: Variant) -> list[str]:
    blocking = "--blocking" if variant.blocking else "--non-blocking"
    return ["--memory", variant.memory, "--order", variant.order, blocking, "--stream", variant.stream]


def make_kineto(variant: Variant, out: Path, scratch: Path) -> dict[str, Any]:
    raw = scratch / f"{variant.name}.json.gz"
    command = [sys.executable, "-m", MODULE, *flags(variant), "--trace", str(raw)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    scrub_kineto(raw, out / f"gemm_copy-{variant.name}.json.gz")
    wall: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return wall


def make_nsys(variant: Variant, out: Path, scratch: Path, nsys_sqlite: str) -> None:
    raw = scratch / f"{variant.name}.sqlite"
    program = [sys.executable, "-m", MODULE, *flags(variant), "--repeats", "1", "--bracket"]
    subprocess.run([nsys_sqlite, str(raw), *program], check=True)
    scrub_nsys(raw, out / f"gemm_copy-{variant.name}.sqlite.gz")


def machine() -> dict[str, Any]:
    import torch

    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version,pcie.link.gen.max,pcie.link.width.max", "--format=csv,noheader"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split(",")
    return {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "driver": driver[0].strip(),
        "pcie_generation": driver[1].strip(),
        "pcie_width": driver[2].strip().splitlines()[0],
        "python": platform.python_version(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--nsys-sqlite", help="command that profiles and exports SQLite")
    options = parser.parse_args()
    truth: dict[str, Any] = {"machine": machine(), "unprofiled_wall": {}}
    with tempfile.TemporaryDirectory() as scratch:
        for variant in variants():
            wall = make_kineto(variant, options.out, Path(scratch))
            truth["unprofiled_wall"][f"gemm_copy-{variant.name}"] = {
                key: wall[key] for key in ("median_ms", "min_ms", "max_ms", "repeats")
            }
            if options.nsys_sqlite:
                make_nsys(variant, options.out, Path(scratch), options.nsys_sqlite)
            print(variant.name, wall, flush=True)
    (options.out / "truth.json").write_text(json.dumps(truth, indent=2) + "\n")


if __name__ == "__main__":
    main()
