"""The list of all workloads."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from overlapscope.workloads.harness import Workload

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
