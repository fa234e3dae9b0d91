"""The settings of profilers that make a trace answer more: each once, with its exact form for every profiler."""

from __future__ import annotations

from dataclasses import dataclass

from overlapscope.model.trace import Trace


@dataclass(frozen=True)
class Setting:
    """A setting, in its exact form for each profiler, and what a trace has with it.

    ``torch`` is what to give to ``torch.profiler.profile``, ``nsys`` to ``nsys profile`` and ``record`` to
    ``overlapscope record``; empty where there is no such option, or the profiler does so anyway.
    """

    key: str
    gives: str
    torch: str = ""
    nsys: str = ""
    record: str = ""

    def for_profiler(self, profiler: str) -> dict[str, str]:
        """The setting as JSON-ready data, for a profiler."""
        return {"key": self.key, "gives": self.gives, "profiler": profiler, "use": self.use(profiler)}

    def use(self, profiler: str) -> str:
        """The exact form for a profiler; the form of another one where it has no such setting."""
        forms = {"overlapscope record": self.record, "nsys": self.nsys, "torch.profiler": self.torch}
        return forms[profiler] or self.record or self.torch or self.nsys


def profiler_of(trace: Trace) -> str:
    """The profiler that made a trace: ``overlapscope record``, ``nsys`` or ``torch.profiler``."""
    if trace.metadata.format == "nsys":
        return "nsys"
    return "torch.profiler" if trace.metadata.recording is None else "overlapscope record"


_EXPORT = "nsys export --type sqlite, again from the .nsys-rep"
_PROFILE = "torch.profiler.profile({})"
_NSYS = "nsys profile -t cuda,nvtx"
_NSYS_OPERATORS = f"{_NSYS} --pytorch=autograd-nvtx"
_BOTH_ACTIVITIES = _PROFILE.format("activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]")
_CONFIG = _PROFILE.format("experimental_config=torch._C._profiler._ExperimentalConfig({})")
_SCHEDULE = _PROFILE.format("schedule=torch.profiler.schedule(wait={}, warmup={}, active={}, repeat=1)")

GPU_ACTIVITY = Setting(
    "gpu-activity",
    "kernels and copies of the GPU",
    torch=_BOTH_ACTIVITIES,
    nsys=_NSYS,
    record="overlapscope record --device cuda SCRIPT",
)
GPU_RECORDS = Setting(
    "gpu-records",
    "the GPU's records, which the profiler did not get",
    torch="torch.cuda.synchronize() before the profiler stops, and no other profiler (nsys, ncu, DCGM) on the GPU",
    nsys=f"{_NSYS}, with no other profiler (ncu, DCGM) on the GPU",
    record="overlapscope record SCRIPT, with no other profiler (nsys, ncu, DCGM) on the GPU",
)
CALLS = Setting(
    "calls",
    "the calls that launch, copy and synchronise",
    torch=_BOTH_ACTIVITIES,
    nsys=_NSYS,
    record="overlapscope record SCRIPT",
)
GRAPH_NODES = Setting(
    "graph-nodes",
    "the kernels and copies inside CUDA graphs",
    nsys="nsys profile -t cuda,nvtx --cuda-graph-trace=node",
    record="overlapscope record SCRIPT",
)
SYNC_EVENTS = Setting(
    "sync-events",
    "what streams and the host waited for",
    torch=_CONFIG.format("enable_cuda_sync_events=True"),
    nsys=_NSYS,
    record="overlapscope record SCRIPT",
)
RECORDED_WAITS = Setting(
    "recorded-waits",
    "the event that each wait is for, which Kineto leaves out since CUDA 12.9",
    torch="nsys profile -t cuda,nvtx -c cudaProfilerApi",
    nsys=_NSYS,
    record="nsys profile -t cuda,nvtx -c cudaProfilerApi overlapscope record SCRIPT",
)
WARM_UP = Setting(
    "warm-up",
    "steps without what only the first ones cost",
    torch=_SCHEDULE.format(5, 5, 5),
    nsys="nsys profile -t cuda,nvtx -c cudaProfilerApi, with torch.cuda.profiler.start() after the first steps",
    record="overlapscope record --steps auto --warmup 5 --unprofiled 10 SCRIPT",
)
UNPROFILED = Setting(
    "unprofiled",
    "the time of steps without the profiler",
    nsys="nsys profile -t cuda,nvtx -c cudaProfilerApi overlapscope record --steps auto --unprofiled 10 SCRIPT",
    record="overlapscope record --steps auto --unprofiled 10 SCRIPT",
)
ONE_CYCLE = Setting(
    "one-cycle",
    "one stretch without gaps",
    torch=_SCHEDULE.format(1, 1, 3),
    nsys="nsys profile -c cudaProfilerApi --capture-range-end=stop",
    record="overlapscope record --steps auto SCRIPT",
)
SHORTER = Setting(
    "shorter",
    "all records, because buffers do not run full",
    torch=_SCHEDULE.format(1, 1, 2),
    nsys="nsys profile --cuda-flush-interval=1000",
    record="overlapscope record --steps auto SCRIPT",
)
WHOLE_FILE = Setting(
    "whole-file",
    "the whole file, because the program is not killed while it is written",
    torch="prof.stop() and prof.export_chrome_trace() before the program ends",
    nsys=_EXPORT,
    record="overlapscope record --steps auto SCRIPT",
)
EXPORT_AGAIN = Setting(
    "export-again",
    "the tables and columns that every version of nsys writes",
    nsys=_EXPORT,
)
ONE_CLOCK = Setting(
    "one-clock",
    "times of host and GPU on one clock",
    torch="a newer release of torch, whose profiler takes the times of the GPU on the host's clock",
    nsys="a newer release of nsys",
    record="a newer release of torch, whose profiler takes the times of the GPU on the host's clock",
)
ALL_THREADS = Setting(
    "all-threads",
    "operators and ranges of all threads",
    torch=_CONFIG.format("profile_all_threads=True"),
    nsys=_NSYS_OPERATORS,
    record="a release of torch whose _ExperimentalConfig has profile_all_threads",
)
OPERATORS = Setting(
    "operators",
    "operators of PyTorch",
    torch=_BOTH_ACTIVITIES,
    nsys=_NSYS_OPERATORS,
    record="overlapscope record SCRIPT",
)
RANGES = Setting(
    "ranges",
    "named parts of the program",
    torch='with torch.profiler.record_function("NAME"): around each part',
    nsys="nsys profile -t cuda,nvtx, with an NVTX range around each part",
    record='with overlapscope.annotate("NAME"): around each part',
)
STEPS = Setting(
    "steps",
    "steps that can be compared",
    torch="prof.step() at the end of each step",
    nsys="nsys profile -t cuda,nvtx, with an NVTX range around each step",
    record="overlapscope record --steps auto SCRIPT",
)
MORE_STEPS = Setting(
    "more-steps",
    "steps that can be compared",
    torch=_SCHEDULE.format(1, 1, 5),
    nsys=f"{_NSYS}, with an NVTX range around each step",
    record="overlapscope record --steps auto SCRIPT",
)
ONE_PROCESS = Setting(
    "one-process",
    "correlation ids that only one process uses",
    torch="prof.export_chrome_trace() into a file of its own for each process; overlapscope fleet reads them together",
    nsys="nsys profile -o trace.rank%q{RANK}",
    record="torchrun ... -m overlapscope record SCRIPT",
)
STACKS = Setting(
    "stacks",
    "source lines",
    torch=_PROFILE.format("with_stack=True"),
    record="overlapscope record --stacks SCRIPT",
)
MODULES = Setting("modules", "names of the model's modules", record="overlapscope record --modules SCRIPT")
LOADERS = Setting("loaders", "settings of the program's DataLoaders", record="overlapscope record SCRIPT")
RANKS = Setting(
    "ranks",
    "the rank of each trace",
    torch="torch.distributed.init_process_group() before the profiler starts",
    nsys="nsys profile -o trace.rank%q{RANK}",
    record="torchrun ... -m overlapscope record SCRIPT",
)
SYNCHRONISED = Setting(
    "synchronised",
    "the work that the last calls launch",
    torch="torch.cuda.synchronize() before the last prof.step(), or before the profiler stops",
    nsys="torch.cuda.synchronize() before the profiler stops",
    record="torch.cuda.synchronize() before the last recording.step()",
)
EVENT_RECORDS = Setting(
    "event-records",
    "the streams on which events were recorded",
    nsys="nsys profile -t cuda,nvtx --cuda-event-trace=true",
)
