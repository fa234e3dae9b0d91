"""Made traces in which a rule reports, for the tests of rules and of what lists them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from overlapscope import Finding, Trace, open_trace
from overlapscope.analysis.analysis import diagnose
from overlapscope.diagnosis.causes import Cause
from tests import kineto_maker as make
from tests.notation import trace_of

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"


GATHER = "void at::native::index_elementwise_kernel<128, 4, at::native::index_kernel_impl<at::native::OpaqueType<4> > >"


MIB64 = {"grid": [32768, 1, 1], "block": [128, 1, 1]}
"""The grid of an elementwise kernel over 64 MiB of float32: four numbers for each of 128 threads."""


def faulty_traces(tmp_path: Path) -> list[Trace]:
    """A trace for each of these rules."""
    mapped_reads = make.write(tmp_path / "mapped.json", *adding([1400, 1400, 1400, 40]), **make.H200)
    shared_link = make.write(tmp_path / "shared.json", *reducing(collective_us=4000, beside_us=3600, alone_us=1200))
    return [open_trace(mapped_reads), trace_of(tmp_path, INSIDE), open_trace(shared_link)]


def adding(us: Iterable[float], *, name: str = ADD, first: int = 1, at: float = 0) -> list[make.Event]:
    """Launches of 64 MiB each, one after the other, which take these times."""
    events = []
    for number, length in enumerate(us, first):
        events += [make.call(at, 5, correlation=number)]
        events += [make.kernel(at + 10, length, name=name, correlation=number, **MIB64)]
        at += length + 20
    return events


INSIDE = """
thread 1: copy 64MB pinned HtoD 0-5 -> stream 13: 10-1200 | record A 6-8 -> stream 13 | wait A 9-11 -> stream 13
          launch 20-25 -> stream 7: 30-900 | sync 30-1210
"""


def reducing(*, collective_us: float, beside_us: float, alone_us: float, rounds: int = 6) -> list[make.Event]:
    """Rounds of a collective with a copy beside it, and the same copy alone after that."""
    events: list[make.Event] = []
    for number in range(rounds):
        at, last = 10_000 * number, 10 * number
        events += [make.call(at, 3, correlation=last + 1), make.call(at + 4, 3, correlation=last + 2)]
        events += [make.kernel(at + 10, collective_us, stream=20, name="ncclDevKernel_AllReduce", correlation=last + 1)]
        events += [_down(at + 12, beside_us, last + 2), make.call(at + 5000, 3, correlation=last + 3)]
        events += [_down(at + 5010, alone_us, last + 3)]
    for event in events:
        if event["cat"] == "cuda_runtime" and event["args"]["correlation"] % 10 > 1:
            event["name"] = "cudaMemcpyAsync"
    return events


def _down(at: float, length: float, correlation: int) -> make.Event:
    return make.copy(at, length, kinds="DtoH (Device -> Pinned)", size=64 * 2**20, correlation=correlation)


def repeated(steps: int, text: str, period: int = 10_000) -> str:
    """Some lines repeated, their times shifted by a period; `{0}` is the begin of a step."""
    return "\n".join(shifted(text, step * period) for step in range(steps))


def shifted(text: str, by: int) -> str:
    return " ".join(
        "-".join(str(int(part) + by) for part in word.rstrip(":").split("-")) if _is_time(word) else word
        for word in text.split(" ")
    )


def _is_time(word: str) -> bool:
    return "-" in word and word.replace("-", "").isdigit()


STEP = "thread 1: op aten::mm 5000-5020 | launch 5005-5010 -> stream 7: 5012-9990"


BEHIND = """
thread 1: launch 0-5 -> stream 7: 10-100
          copy 64MB pinned HtoD 20-25 -> stream 20: 30-1230 | copy 64MB pinned HtoD 26-30 -> stream 20: 1231-2431
          {between} copy {ids} pinned HtoD 40-45 -> stream 13: 2432-{arrived} | record B 46-47 -> stream 13
          wait B 50-51 -> stream 7 | {wait} launch 55-60 -> stream 7: {start}-6000 | sync 61-6002
"""
"""Two large copies on stream 20, then one that the kernel waits for, on a stream of its own."""


def findings_of(tmp_path: Path, text: str) -> dict[str, Finding]:
    return {finding.code: finding for finding in diagnose(trace_of(tmp_path, text)).findings}


STUCK = {"between": "", "ids": "64KB", "arrived": "2436", "wait": "", "start": "2437"}


def stuck_copy(tmp_path: Path) -> Trace:
    return trace_of(tmp_path, BEHIND.format(**STUCK))


def copies_in_a_row(count: int, copy_us: int, size: str = "1MB") -> str:
    """Pinned copies in a row, a call of 20 us every 21 us, and each copy soon after its call."""
    return "thread 1: " + " | ".join(
        f"copy {size} pinned HtoD {at}-{at + 20} -> stream 13: {at + 22}-{at + 22 + copy_us}"
        for at in range(100, 100 + 21 * count, 21)
    )


TWO_KERNELS = "thread 1: launch 0-5 -> stream 7: 10-105 | launch 20-25 -> stream 9: 30-90\n"


def issuing(tmp_path: Path) -> Trace:
    """A hundred copies, as long as their calls; the kernel after them does not wait for them."""
    return trace_of(tmp_path, TWO_KERNELS + copies_in_a_row(100, 20) + " | launch 2300-2305 -> stream 7: 2310-9000")


DOWN = "copy 4MB pinned DtoH 10-12 -> stream 7: 500-600"


UP = "copy 4MB pinned HtoD 30-32 -> stream 20: {}"


LATER, TOGETHER = "700-800", "40-140"


OTHERS = "launch 2-3 -> stream 20: 4-30 | launch 3-4 -> stream 7: 4-490"  # at the same time: no legacy default stream


def reported(tmp_path: Path, code: str, text: str, **calibration: Any) -> Finding | None:
    trace = trace_of(tmp_path, text, **make.calibrated(**calibration))
    return next((finding for finding in diagnose(trace, plan=False).findings if finding.code == code), None)


def columns(**names: list[int]) -> dict[str, list[int]]:
    """Columns of a calibration, times in ns from those in us."""
    return {
        name: [1000 * value if name.endswith("_ns") else value for value in values] for name, values in names.items()
    }


ROUND_TRIP = f"thread 1: {OTHERS} | op aten::copy_ 9-13 | {DOWN} | op aten::copy_ 29-33 | {UP} | sync 900-901"


SAME = {"host_accesses": columns(op_start_ns=[9, 29], tensor=[0, 0], access=[0, 1])}


BUSY = "thread 1: launch 0-1 -> stream 7: 2-490"


REFILL = (
    f"{BUSY} | op aten::copy_ 9-13 | copy 4MB pinned HtoD 10-12 -> stream 7: 500-600 | {{}} |"
    "op aten::copy_ 700-720 | launch 800-801 -> stream 7: 802-810"
)


WRITTEN = {"host_accesses": columns(op_start_ns=[9, 700], tensor=[0, 0], access=[1, 3])}


REUSE = (
    f"{BUSY} | launch 2-3 -> stream 20: 4-8 | op aten::mean 9-13 | launch 10-12 -> stream 7: 500-600 |"
    "{} | op aten::copy_ 29-33 | copy 4MB pinned HtoD 30-32 -> stream 20: 40-140 | sync 900-901"
)


REUSED = {"reused_blocks": columns(used_start_ns=[9], reused_start_ns=[29])}


def racing_traces(tmp_path: Path) -> list[Trace]:
    """One trace for each finding that needs to know the memory."""
    texts = ((ROUND_TRIP.format(TOGETHER), SAME), (REFILL.format("range fill 20-21"), WRITTEN))
    last = (REUSE.format("range free 20-21"), REUSED)
    return [trace_of(tmp_path, text, **make.calibrated(**known)) for text, known in (*texts, last)]


GPUS = {"deviceProperties": [{"id": index, "name": "NVIDIA H200"} for index in range(2)]}


FIRST, SECOND = 7, 15
"""The default streams of two devices, as CUPTI numbers them."""


def taking_turns(
    tmp_path: Path,
    *more: str,
    streams: tuple[int, int] = (FIRST, SECOND),
    ends: int = 5_000,
    begin: int = 5_004,
    device: int = 1,
) -> Trace:
    """Each device has a kernel; the next of the second waits for that of the first, which may end long before."""
    source, waiting = streams
    turns = f"""
        thread 1: launch 0-4 -> stream {source}: 10-{ends} | launch 5-9 -> gpu 1 stream {waiting}: 15-100
                  record A 10-11 -> stream {source} | wait A 12-13 -> gpu {device} stream {waiting}
                  launch 30-34 -> gpu 1 stream {waiting}: {begin}-{begin + 500}
    """
    return trace_of(tmp_path, turns, *more, **GPUS)


def idle_of_the_second(trace: Trace) -> dict[Cause, float]:
    """What the second device's idle time is attributed to, in us."""
    idle = diagnose(trace).devices[1].idle
    return {Cause(cause): float(idle.duration_ns[idle.cause == cause].sum()) / 1e3 for cause in set(idle.cause)}


EXPOSED = """
thread 1: copy 4MB pinned HtoD 0-5 -> stream 7: 10-410 | launch 6-9 -> stream 7: 411-10_000
          copy 4MB pinned HtoD 20-25 -> stream 7: 10_001-10_201 | launch 30-33 -> stream 7: 10_202-20_200
"""
