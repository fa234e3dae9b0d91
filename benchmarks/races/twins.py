"""The workloads that race, each beside its twin that does not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.races.counts import Counts, Values
from benchmarks.races.recording import findings
from overlapscope.workloads.harness import Workload


@dataclass(frozen=True)
class Twins:
    """A workload with a variant that races, and the rule that is about it; ``fixed_by`` names the healthy twin."""

    rule: str
    workload: str
    racing: str

    @property
    def program(self) -> Workload[Any, Any]:
        """The workload itself."""
        found: Workload[Any, Any] = import_module(f"overlapscope.workloads.{self.workload}").WORKLOAD
        return found

    @property
    def healthy(self) -> str:
        """The name of the twin."""
        return self.program.variant(self.racing).fixed_by or ""


ALL = (
    Twins("OVL101", "host_round_trip", "upload-unordered"),
    Twins("OVL102", "staging_buffer", "refilled-early"),
    Twins("OVL103", "pinning_guide", "read-early"),
    Twins("OVL104", "freed_memory", "unguarded"),
    Twins("OVL105", "self_wait", "read-unordered"),
)


def measured(twins: Twins, out: Path, device: str, repeats: int) -> dict[str, Any]:
    """Run both variants so many times, compare them with a run of the healthy one, and record a pass of each."""
    ordered = _values(twins, twins.healthy, device)
    variants = {}
    for name in (twins.racing, twins.healthy):
        counts = Counts.of([_values(twins, name, device) for _ in range(repeats)], ordered)
        program = twins.program.build(name, device)
        path = out / f"{twins.workload}-{name}.json.gz"
        variants[name] = asdict(counts) | {"findings": findings(program.run, path, device)}
    return {"rule": twins.rule, "racing": twins.racing, "healthy": twins.healthy, "variants": variants}


def _values(twins: Twins, name: str, device: str) -> Values:
    """What the first pass of a variant computes, in buffers of its own."""
    program = twins.program.build(name, device)
    program.run()
    result: Any = program.result()
    return [float(value) for value in result]
