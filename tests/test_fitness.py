"""What a trace can answer: each check on a small trace, the statement, and the command."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from overlapscope import audit, compare, doctor, open_trace, what_if
from overlapscope.cli.main import app
from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.device import possible_waits
from overlapscope.document.text import plain_text
from overlapscope.errors import UnknownTraceFormat
from overlapscope.fitness.answer import Answer, Verdict
from overlapscope.fitness.catalogue import CHECKS
from overlapscope.fitness.fitness import Fitness, fit_parts
from overlapscope.fitness.settings import ONE_CLOCK, SHORTER
from overlapscope.measure.cycles import unrecorded
from overlapscope.model.trace import Trace
from tests import kineto_maker as make, nsys_maker
from tests.bounds import by_order_ns
from tests.conftest import CASES, CORPUS, SAMPLES
from tests.notation import trace_of

STEPS = {"count": 5, "wall_ns": 50_000_000}


def answer(trace: Trace, key: str) -> Answer:
    return next(each.answer for each in doctor(trace) if each.check.key == key)


def lines(fit: Fitness) -> list[str]:
    return plain_text(fit_parts(fit)).splitlines()


def corpus(name: str) -> Trace:
    found = sorted(CORPUS.glob(f"*/**/{name}__*")) if CORPUS.exists() else []
    if not found:
        pytest.skip("no corpus of public traces")
    return open_trace(found[0])


def test_every_check_is_about_one_question_of_its_own() -> None:
    assert len({check.key for check in CHECKS}) == len({check.question for check in CHECKS}) == len(CHECKS)
    assert all(check.question.endswith("?") for check in CHECKS)


def test_a_recording_answers_what_an_audit_asks() -> None:
    fit = doctor(open_trace(SAMPLES / "dataloader_train-pinned-non-blocking.json.gz"))
    assert fit.verdict is Verdict.YES
    assert not fit.limits
    assert fit.statement == "This trace has everything that the figures and findings need."


def test_a_plain_trace_does_not(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, "launch 0-5 -> stream 7: 10-110 | copy 4KiB pinned HtoD 20-25 -> stream 7: 120-130")
    fit = doctor(trace)
    assert [each.check.key for each in fit.limits] == ["unprofiled"]
    assert fit.setting is not None
    assert fit.setting.use("torch.profiler") == "overlapscope record --steps auto --unprofiled 10 SCRIPT"
    assert "the profiler's cost" in fit.statement


# Waits of streams: Kineto on CUDA 12.9 and later leaves open what they are for.

OPEN = [
    *(make.call(at, 2, correlation=number) for number, at in ((1, 0), (2, 4), (5, 4990))),
    make.call(8, 1, name="cudaEventRecord", correlation=3),
    make.call(10, 1, name="cudaStreamWaitEvent", correlation=4),
    make.sync("Stream Wait Event", 10, 1, stream=20, correlation=4, wait_on_stream=-1,
              wait_on_cuda_event_record_corr_id=-1, wait_on_cuda_event_id=9),
    make.kernel(5, 995, stream=7, correlation=1),
    make.kernel(8, 992, stream=13, correlation=2),
    make.kernel(5000, 100, stream=20, correlation=5),
]  # fmt: skip
"""Two streams may be what the third one waited for: both had ended long before its next launch."""


def test_a_wait_that_may_be_for_any_stream_is_open(tmp_path: Path) -> None:
    trace = open_trace(make.write(tmp_path / "t.json", *OPEN))
    found = answer(trace, "stream-waits")
    assert (found.verdict, found.counts["open"]) == (Verdict.NO, 1)
    assert found.setting is not None
    assert found.setting.use("torch.profiler").startswith("nsys profile")
    assert "what streams waited for (1 open)" in doctor(trace).statement


def test_an_open_wait_widens_a_prediction_and_is_stated(tmp_path: Path) -> None:
    trace = open_trace(make.write(tmp_path / "t.json", *OPEN))
    graph = build_graph(trace)
    edges = possible_waits(graph)
    sources = graph.work.stream[graph.work_of(edges.source)]
    assert sorted(sources.tolist()) == [7, 13]
    assert (graph.work.stream[graph.work_of(edges.target)] == 20).all()
    assert edges.inferred.all()
    assert (graph.time_ns[edges.source] + edges.weight_ns <= graph.time_ns[edges.target]).all(), "as the trace has it"
    assert not graph.dependencies.among(edges).any(), "the graph itself assumes neither"
    assert any("1 stream wait has no recorded event" in text for text in what_if(trace, "pin").assumptions)


def test_an_open_wait_lengthens_the_upper_bound(tmp_path: Path) -> None:
    """Pinned, the copy no longer holds the host; the kernel may have waited for it all the same."""
    launches = ((1, 0, "cudaLaunchKernel"), (3, 2012, "cudaEventRecord"), (4, 2015, "cudaStreamWaitEvent"),
                (5, 2020, "cudaLaunchKernel"))  # fmt: skip
    open_wait = make.sync("Stream Wait Event", 2015, 1, stream=20, correlation=4, wait_on_stream=-1,
                          wait_on_cuda_event_record_corr_id=-1)  # fmt: skip
    events = [
        *(make.call(at, 2, name=name, correlation=number) for number, at, name in launches),
        make.call(4, 2002, name="cudaMemcpyAsync", correlation=2),
        make.kernel(5, 800, stream=7, correlation=1),
        make.copy(20, 1980, size=50_000_000, stream=13, correlation=2),
        make.kernel(2030, 100, stream=20, correlation=5),
    ]
    ordered, left_open = (
        what_if(open_trace(make.write(tmp_path / f"{len(more)}.json", *events, *more, **make.H200)), "pin")
        for more in ([], [open_wait])
    )
    least_ns, most_ns = by_order_ns(ordered.estimate)
    assert least_ns == most_ns, "without the record, the order of calls shows the wait"
    assert left_open.predicted_ns + 100_000 < by_order_ns(left_open.estimate)[1] == most_ns


def test_where_calls_are_missing_none_is_known_to_wait(tmp_path: Path) -> None:
    two_streams = "launch 0-5 -> stream 7: 10-110 | launch 6-9 -> stream 9: 12-110"
    assert answer(trace_of(tmp_path, two_streams), "stream-waits").verdict is Verdict.YES
    cut = answer(trace_of(tmp_path, two_streams, make.kernel(200, 9, stream=9)), "stream-waits")
    assert cut.verdict is Verdict.PARTLY
    assert "calls are missing" in cut.evidence


def test_waits_that_nsys_records_are_not_open() -> None:
    told, left_open = (answer(open_trace(CASES / f"side_stream_wait.{end}"), "stream-waits")
                       for end in ("sqlite.gz", "json.gz"))  # fmt: skip
    assert told.verdict is Verdict.YES
    assert (left_open.verdict, left_open.counts["inferred"], left_open.counts["open"]) == (Verdict.PARTLY, 5, 1)


def test_waits_without_synchronisation_events(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        *(event for event in OPEN if event["cat"] != "cuda_sync"),
    )
    found = answer(trace, "stream-waits")
    assert found.verdict is Verdict.PARTLY, "the order of calls shows a wait for the stream of the last launch"
    assert found.setting is not None
    assert "enable_cuda_sync_events=True" in found.setting.use("torch.profiler")


def test_a_public_trace_before_and_after_kineto_recorded_it() -> None:
    assert answer(corpus("kin-h100-before-fix"), "stream-waits").verdict is Verdict.NO
    assert not answer(corpus("kin-h100-after-fix"), "stream-waits").open


def test_rows_of_a_stream_synchronisation_make_no_thread_and_no_stream(tmp_path: Path) -> None:
    """Newer Kineto puts them on a thread of their own: the stream's number and a million."""
    row = make.sync("Stream Sync", 112, 3, stream=7, correlation=2)
    events = [make.call(0, 5, correlation=1), make.kernel(10, 100, correlation=1)]
    events += [make.call(5, 2, correlation=3), make.kernel(10, 500, stream=9, correlation=3)]
    events.append(make.call(112, 3, name="cudaStreamSynchronize", correlation=2))
    traces = [open_trace(make.write(tmp_path / f"{tid}.json", *events, row | {"tid": tid})) for tid in (7, 1_000_007)]
    for trace in traces:
        assert trace.syncs.stream.tolist() == [7]
        assert {number for table in trace.device_work for number in table.stream.tolist()} == {7, 9}
        assert 1_000_007 not in {thread for _, thread in trace.api_calls.threads}
        assert answer(trace, "host-waits").verdict is Verdict.YES
    one, other = (audit(trace).to_dict() for trace in traces)
    for each in (one, other):
        each["source"]["path"] = ""
    assert one == other


# Several profiling cycles in one file.


def cycle(at: int, step: int) -> list[make.Event]:
    return [
        make.annotation(f"ProfilerStep#{step}", at, 200),
        make.call(at + 5, 5, correlation=step),
        make.kernel(at + 20, 100, correlation=step),
    ]  # fmt: skip


def span(at: int, length: int) -> make.Event:
    return {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "x", "ts": at,
            "dur": length, "args": {}}  # fmt: skip


@pytest.mark.parametrize("how", ["steps", "spans", "calls"])
def test_profiling_cycles_are_named_and_their_gap_is_not_blamed_on_the_host(tmp_path: Path, how: str) -> None:
    events = [*cycle(0, 3), *cycle(100_000, 9 if how == "steps" else 4)]
    if how == "spans":
        events += [span(0, 300), span(99_900, 400)]
    elif how == "calls":
        events += [make.call(at, 1, name=name) for at, name in ((250, "cudaProfilerStop"), (99_990, "cuProfilerStart"))]
    trace = open_trace(make.write(tmp_path / "t.json", *events))
    gaps = unrecorded(trace)
    assert len(gaps) == 1
    assert 99_000_000 < gaps.total_ns < 100_000_000
    found = audit(trace)
    assert "2 profiling cycles" in found.fit.statement
    assert found.fit.setting is not None
    assert found.fit.setting.key == "one-cycle", "it comes before the profiler's cost"
    (finding,) = [each for each in found.diagnosis.findings if each.code == "OVL000"]
    assert "the profiler was off" in finding.message
    assert finding.idle_ns > 99_000_000


def test_a_pause_of_the_program_is_no_cycle(tmp_path: Path) -> None:
    trace = open_trace(make.write(tmp_path / "t.json", *cycle(0, 3), *cycle(100_000, 4), span(0, 101_000)))
    assert not len(unrecorded(trace))
    assert answer(trace, "one-stretch").verdict is Verdict.YES


# Operators of other threads.

TWO_THREADS = """
thread 1: op aten::mm 0-20 | launch 2-7 -> stream 7: 10-110
thread 2: launch 120-125 -> stream 7: 130-230
"""


def test_operators_of_other_threads(tmp_path: Path) -> None:
    absent = answer(trace_of(tmp_path, TWO_THREADS), "operators")
    assert (absent.verdict, absent.counts["without_operators"]) == (Verdict.PARTLY, 1)
    assert absent.setting is not None
    assert "profile_all_threads=True" in absent.setting.use("torch.profiler")
    there = answer(trace_of(tmp_path, TWO_THREADS, make.cpu_op("aten::mul", 119, 10, tid=2)), "operators")
    assert there.verdict is Verdict.YES


# What the profiler cost.


@pytest.mark.parametrize(("wall_ns", "verdict"), [(70_000_000, Verdict.YES), (80_000_000, Verdict.PARTLY)])
def test_recorded_against_unprofiled_time(tmp_path: Path, wall_ns: int, verdict: Verdict) -> None:
    header = make.calibrated(recorded=STEPS | {"wall_ns": wall_ns}, unprofiled=STEPS)
    trace = trace_of(tmp_path, "launch 0-5 -> stream 7: 10-110", **header)
    assert answer(trace, "unprofiled").verdict is verdict
    assert ("1.6 times as long" in doctor(trace).statement) == (verdict is Verdict.PARTLY)


# Rows in any order.


def test_the_order_of_rows_says_nothing_in_nsys(tmp_path: Path) -> None:
    """Nsight Systems 2025.6 and later promise none."""
    import gzip

    original = tmp_path / "original.sqlite"
    original.write_bytes(gzip.decompress((CASES / "side_stream_wait.sqlite.gz").read_bytes()))
    shuffled = tmp_path / "shuffled.sqlite"
    shuffled.write_bytes(original.read_bytes())
    _shuffle(shuffled)
    one, other = (audit(open_trace(path)).to_dict() for path in (original, shuffled))
    for each in (one, other):
        each["source"]["path"] = ""
    assert one == other


def _shuffle(path: Path) -> None:
    """Store the rows of every table in another order."""
    connection, order = sqlite3.connect(path), np.random.default_rng(1)
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        rows = connection.execute(f'SELECT * FROM "{table}"').fetchall()
        connection.execute(f'DELETE FROM "{table}"')
        for number in order.permutation(len(rows)).tolist():
            marks = ", ".join("?" * len(rows[number]))
            connection.execute(f'INSERT INTO "{table}" VALUES ({marks})', rows[number])
    connection.commit()
    connection.close()


# Dropped records, and damage.


def test_dropped_records_of_kineto(tmp_path: Path) -> None:
    said = "WARNING:2026-01-08 CuptiActivityApi.cpp:170] Exceeded max GPU buffer count (33 >= 33) - terminating tracing"
    trace = trace_of(tmp_path, "launch 0-5 -> stream 7: 10-110", WARNING=[said, 7], INFO=[said])
    found = answer(trace, "complete")
    assert (found.verdict, found.counts["lost"]) == (Verdict.PARTLY, 1)
    assert found.brief == "the profiler dropped records"
    assert trace.health.damaged
    assert found.setting is not None
    assert found.setting.key == "shorter"


def test_dropped_records_of_nsys(tmp_path: Path) -> None:
    tables = {
        "CUPTI_ACTIVITY_KIND_RUNTIME": [nsys_maker.call(0, 5, 2)],
        "CUPTI_ACTIVITY_KIND_KERNEL": [nsys_maker.work(10, 20, demangledName=3)],
        "DIAGNOSTIC_EVENT": [{"text": "Not all CUDA events might have been collected."}, {"text": None}],
    }
    trace = open_trace(nsys_maker.write(tmp_path / "t.sqlite", tables, {2: "cudaLaunchKernel_v7000", 3: "k"}))
    assert answer(trace, "complete").verdict is Verdict.PARTLY
    assert answer(trace, "complete").brief == "records may be missing"
    assert not trace.health.damaged, "it may have lost something, and it may not"


def test_a_public_trace_of_nsys_that_may_have_lost_events() -> None:
    trace = corpus("nsys-lt-empty")
    assert trace.health.has("records-dropped")
    fit = doctor(trace)
    assert fit.verdict is Verdict.NO
    assert fit.setting is not None
    assert fit.setting.key == "shorter"


def test_launches_whose_work_ran_after_the_end(tmp_path: Path) -> None:
    done = "launch 0-5 -> stream 7: 10-110 | launch 6-9 -> stream 7: 110-210 | launch 20-25 | launch 30-35"
    found = answer(trace_of(tmp_path, done), "complete")
    assert found.verdict is Verdict.PARTLY
    assert "after the profiler had stopped" in found.evidence
    assert found.setting is not None
    assert "torch.cuda.synchronize()" in found.setting.use("torch.profiler")


def test_work_that_the_host_waited_for_ran_before_the_end(tmp_path: Path) -> None:
    calls = "launch 0-5 -> stream 7: 10-110 | launch 20-25 | launch 30-35"
    waited = make.call(40, 100, name="cudaDeviceSynchronize", correlation=9)
    found = answer(trace_of(tmp_path, calls, waited), "complete")
    assert "the profiler lost it" in found.evidence
    assert found.setting is not None
    assert found.setting.key == "shorter"


MANY_LAUNCHES = [event for number in range(100) for event in (
    make.call(10 * number, 2, correlation=number), make.kernel(10 * number + 3, 5, correlation=number))]  # fmt: skip


def test_copies_that_are_lost_among_many_kernels(tmp_path: Path) -> None:
    called = [make.call(2000 + 10 * number, 2, name="cudaMemcpyAsync", correlation=500 + number) for number in (0, 1)]
    some = open_trace(make.write(tmp_path / "a.json", *MANY_LAUNCHES, *called, make.copy(2005, 2, correlation=500)))
    found = doctor(some)
    assert "(1 of 2 copy calls have no work)" in found.statement
    assert not some.health.has("copies-not-recorded")
    none = open_trace(make.write(tmp_path / "b.json", *MANY_LAUNCHES, *called))
    assert none.health.has("copies-not-recorded")
    assert answer(none, "gpu-idle").verdict is Verdict.PARTLY
    assert "Copies are not the problem" not in audit(none).headline


def test_copies_that_were_captured_or_of_no_bytes_are_not_missing(tmp_path: Path) -> None:
    capture = [make.call(2000 + at, 2, name=name) for at, name in (
        (0, "cudaStreamBeginCapture"), (3, "cudaMemcpyAsync"), (6, "cudaStreamEndCapture"))]  # fmt: skip
    nothing = make.call(2020, 0.5, name="cudaMemcpyAsync", correlation=501)
    trace = open_trace(make.write(tmp_path / "t.json", *MANY_LAUNCHES, *capture, nothing))
    assert not trace.health.has("copies-not-recorded")
    assert not answer(trace, "gpu-idle").open


def test_kernels_that_an_export_leaves_out(tmp_path: Path) -> None:
    tables: dict[str, nsys_maker.Rows] = {
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            nsys_maker.call(0, 5, 2),
            nsys_maker.call(6, 9, 4, correlation=2),
            nsys_maker.call(30, 33, 4, correlation=3),
        ],
        "CUPTI_ACTIVITY_KIND_MEMSET": [nsys_maker.work(10, 20, correlation=2), nsys_maker.work(40, 50, correlation=3)],
    }
    fit = doctor(open_trace(nsys_maker.write(tmp_path / "t.sqlite", tables, {2: "cudaLaunchKernel", 4: "cudaMemset"})))
    assert fit.verdict is Verdict.NO
    assert "kernels were launched, but are not in the trace" in fit.answers[0].answer.evidence
    assert audit(fit.trace).headline.startswith("The GPU was idle for at most ")
    assert fit.setting is not None
    assert fit.setting.key == "export-again"


def test_a_file_that_is_cut_off_says_so_first(tmp_path: Path) -> None:
    whole = make.write(tmp_path / "whole.json", *MANY_LAUNCHES).read_text()
    cut = tmp_path / "cut.json"
    cut.write_text(whole[: len(whole) // 2])
    fit = doctor(open_trace(cut))
    assert "file is truncated" in fit.statement
    assert "Would help most: prof.stop() and " in fit.statement
    assert "1 the file" not in answer(fit.trace, "complete").evidence


def test_ids_of_several_processes_in_one_file(tmp_path: Path) -> None:
    ranks = [event | {"pid": rank, "tid": rank} for rank in (101, 102) for event in MANY_LAUNCHES[:20:2]]
    work = [
        event | {"args": event["args"] | {"device": device}} for device in (0, 1) for event in MANY_LAUNCHES[1:20:2]
    ]
    found = answer(open_trace(make.write(tmp_path / "t.json", *ranks, *work)), "complete")
    assert "several processes have the same correlation ids" in found.evidence
    assert found.setting is not None
    assert found.setting.key == "one-process"


def test_calls_that_need_no_work_have_lost_none(tmp_path: Path) -> None:
    """Memsets of no bytes return at once, and what is captured into a graph runs when that is launched."""
    done = "launch 0-5 -> stream 7: 10-110"
    nothing = [make.call(20, 0.3, name="cudaMemsetAsync", correlation=9)]
    capture = [make.call(at, 2, name=name) for at, name in ((30, "cudaStreamBeginCapture"), (33, "cudaLaunchKernel"),
                                                            (36, "cudaStreamEndCapture"))]  # fmt: skip
    assert answer(trace_of(tmp_path, done, *nothing, *capture), "complete").verdict is Verdict.YES
    lost = [make.call(20, 3, name="cudaMemsetAsync", correlation=9), make.call(40, 2, correlation=8)]
    found = answer(trace_of(tmp_path, done, *lost, *capture), "complete")
    assert (found.verdict, found.counts["calls_without_work"]) == (Verdict.PARTLY, 2)


def test_a_call_that_failed_has_lost_nothing(tmp_path: Path) -> None:
    """Nsight Systems may write two rows for a call, of which one has the error."""
    copies = [nsys_maker.call(30, 40, 4, correlation=2, returnValue=0),
              nsys_maker.call(31, 39, 5, correlation=2, returnValue=1)]  # fmt: skip
    tables: dict[str, nsys_maker.Rows] = {
        "CUPTI_ACTIVITY_KIND_RUNTIME": [nsys_maker.call(0, 5, 2, returnValue=0), *copies],
        "CUPTI_ACTIVITY_KIND_KERNEL": [nsys_maker.work(10, 20, demangledName=3)],
    }
    names = {2: "cudaLaunchKernel_v7000", 3: "k", 4: "cudaMemcpy", 5: "cudaMemcpy_v3020"}
    fit = doctor(open_trace(nsys_maker.write(tmp_path / "t.sqlite", tables, names)))
    assert [each.check.key for each in fit.limits] == ["unprofiled"]
    assert "1 calls that launch or copy returned an error" in next(
        each.answer.evidence for each in fit if each.check.key == "complete"
    )


def test_ids_that_match_nothing_are_not_a_loss_at_the_end(tmp_path: Path) -> None:
    found = answer(trace_of(tmp_path, "launch 0-5 -> stream 7: 10-110 | launch 20-25", make.kernel(200, 9)), "complete")
    assert "has no call, and may be theirs" in found.evidence
    assert found.setting is None


@pytest.mark.parametrize(
    ("table", "gone", "key", "said"),
    [
        ("CUPTI_ACTIVITY_KIND_KERNEL", "streamId", "stream-waits", "do not say their stream"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "deviceId", "gpu-idle", "do not say their GPU"),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind", "memory", "do not say their direction"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "nameId", "host-waits", "have no name"),
        ("StringIds", "value", "stream-waits", "have no name"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "", "complete", "but a view of this name"),
    ],
)
def test_a_layout_without_what_a_question_needs(tmp_path: Path, table: str, gone: str, key: str, said: str) -> None:
    """A stream that is not known is not the only one, and a call without a name may wait."""
    import gzip

    path = tmp_path / "t.sqlite"
    path.write_bytes(gzip.decompress((CASES / "side_stream_wait.sqlite.gz").read_bytes()))
    whole = open_trace(path, cache=False)
    with sqlite3.connect(path) as database:
        database.execute(f"ALTER TABLE {table} RENAME {f'COLUMN {gone}' if gone else ''} TO other")
        if not gone:
            database.execute(f"CREATE VIEW {table} AS SELECT * FROM other")
    fit = doctor(open_trace(path, cache=False))
    found = next(each for each in fit if each.check.key == key)
    assert found.limits
    assert said in found.answer.evidence
    assert fit.setting is not None
    assert fit.setting.key == "export-again"
    assert table in next(each.answer.evidence for each in fit if each.check.key == "complete")
    remark = compare(whole, fit.trace)
    assert not remark.comparable
    assert any(each.code == "incomplete" for each in remark.remarks)


# Clocks.


def test_work_that_starts_before_its_call(tmp_path: Path) -> None:
    for early, verdict in ((1, Verdict.YES), (3, Verdict.PARTLY)):  # a microsecond is the rounding of older releases
        trace = trace_of(tmp_path, f"launch 100-105 -> stream 7: {100 - early}-300")
        assert answer(trace, "clocks").verdict is verdict
    assert "launch delays (1 of 1 start before their call)" in doctor(trace).statement


def test_work_that_ends_after_the_host_had_waited_for_it(tmp_path: Path) -> None:
    """The other sign of clocks that disagree: times of the GPU are too late, and with them launch delays too long."""
    launch = [make.call(0, 5, correlation=1), make.call(20, 100, name="cudaDeviceSynchronize", correlation=2)]
    for end, verdict in ((119, Verdict.YES), (121, Verdict.YES), (140, Verdict.PARTLY)):
        trace = open_trace(make.write(tmp_path / f"{end}.json", *launch, make.kernel(10, end - 10, correlation=1)))
        assert answer(trace, "clocks").verdict is verdict
    assert answer(trace, "clocks").counts["worst_unfinished_ns"] == 20_000
    assert "launch delays (too long by up to 20 us)" in doctor(trace).statement
    after = [make.call(125, 5, correlation=3), make.kernel(130, 900, correlation=3)]
    later = open_trace(make.write(tmp_path / "after.json", *launch, make.kernel(10, 100, correlation=1), *after))
    assert answer(later, "clocks").verdict is Verdict.YES, "it was launched after the synchronisation"


def test_calls_of_another_runtime_are_not_known_to_wait(tmp_path: Path) -> None:
    """Those of Intel's are in traces of torch.profiler, too."""
    names = ("urEnqueueKernelLaunch", "urQueueFinish")
    calls = make.call(0, 5, name=names[0], correlation=1), make.call(20, 90, name=names[1], correlation=2)
    events = [*(call | {"cat": "xpu_runtime"} for call in calls), make.kernel(10, 90, correlation=1)]
    trace = open_trace(make.write(tmp_path / "t.json", *events))
    found = answer(trace, "host-waits")
    assert found.verdict is Verdict.NO
    assert "urEnqueueKernelLaunch" in found.evidence
    assert answer(trace, "blocked").verdict is Verdict.PARTLY


def test_public_traces_whose_clocks_disagree() -> None:
    assert answer(corpus("tr-rn18-r0"), "clocks").verdict is Verdict.YES
    assert answer(corpus("tr-rn18-r1"), "clocks").counts["early"] == 224


# Memory kinds, calls, and traces without GPU work.


def test_copies_without_a_memory_kind(tmp_path: Path) -> None:
    events = [make.call(0, 5, name="hipMemcpyAsync", correlation=1),
              make.copy(10, 20, kinds="HtoD (Host -> Device)", correlation=1)]  # fmt: skip
    trace = open_trace(make.write(tmp_path / "t.json", *events, hip_runtime_version=60443483))
    found = answer(trace, "memory")
    assert found.verdict is Verdict.NO
    assert "ROCm does not record it" in found.evidence
    assert found.setting is None


def test_no_setting_of_nvidia_is_said_to_help_on_amd(tmp_path: Path) -> None:
    work = [make.call(0, 5, name="hipLaunchKernel", correlation=1), make.kernel(10, 90, correlation=1)]
    sync = make.call(20, 90, name="hipStreamSynchronize", correlation=2)
    (note,) = [each for each in open_trace(make.write(tmp_path / "t.json", *work, sync)).health
               if each.code == "syncs-not-recorded"]  # fmt: skip
    assert note.message.endswith("ROCm records none")


def test_a_trace_without_calls_and_one_without_gpu_work(tmp_path: Path) -> None:
    without_calls = open_trace(make.write(tmp_path / "a.json", make.kernel(0, 10)))
    assert answer(without_calls, "blocked").verdict is Verdict.NO
    assert answer(without_calls, "launches").verdict is Verdict.NO
    cpu_only = doctor(open_trace(make.write(tmp_path / "b.json", make.cpu_op("aten::mm", 0, 5))))
    assert cpu_only.verdict is Verdict.NO
    assert cpu_only.setting is not None
    assert "ProfilerActivity.CUDA" in cpu_only.setting.use("torch.profiler")


def test_a_gpu_whose_records_are_all_lost(tmp_path: Path) -> None:
    fit = doctor(open_trace(make.write(tmp_path / "t.json", *MANY_LAUNCHES[::2])))
    assert fit.verdict is Verdict.NO
    assert fit.setting is not None
    assert "no other profiler" in fit.setting.use("torch.profiler")


def test_a_profiler_that_was_never_active(tmp_path: Path) -> None:
    named = {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}}
    found = answer(open_trace(make.write(tmp_path / "t.json", named)), "gpu-idle")
    assert found.verdict is Verdict.NO
    assert "never active" in found.evidence


@pytest.mark.parametrize(
    "events",
    [
        [{"ph": "X", "name": "fusion", "pid": 1, "tid": 14, "ts": 1.5, "dur": 2, "args": {"hlo_module": "jit_f"}}],
        [{"ph": "X", "cat": "Op", "name": "MatMul", "pid": 1, "tid": 0, "ts": 1, "dur": 5, "args": {"op": "MatMul"}}],
        [{"ph": "X", "cat": "toplevel", "name": "RunTask", "pid": 1, "tid": 0, "ts": 1, "dur": 5}],
        [{"ph": "X", "name": "aten::mm", "pid": "CPU functions", "tid": 1, "ts": 1, "dur": 5, "args": {}}],
    ],
    ids=["JAX", "TensorFlow", "Chrome", "autograd profiler"],
)
def test_events_of_other_programs_are_no_trace_of_a_cpu(tmp_path: Path, events: list[make.Event]) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}))
    with pytest.raises(UnknownTraceFormat, match=r"none of torch\.profiler"):
        open_trace(path)


def test_steps_and_ranges_that_repeat(tmp_path: Path) -> None:
    work = "launch 0-5 -> stream 7: 10-110"
    small = [make.annotation("small", at, 2) for at in (0, 40, 80)]
    assert answer(trace_of(tmp_path, work, *small), "steps").verdict is Verdict.NO
    whole = [make.annotation("train", at, 35) for at in (0, 40, 80)]
    found = answer(trace_of(tmp_path, work, *small, *whole), "steps")
    assert found.verdict is Verdict.YES
    assert "'train' repeats 3 times" in found.evidence


def test_a_single_recorded_step_among_timed_ones(tmp_path: Path) -> None:
    step, work = make.annotation("ProfilerStep#1", 0, 120), "launch 0-5 -> stream 7: 10-110"
    single = answer(trace_of(tmp_path, work, step), "steps")
    assert single.verdict is Verdict.PARTLY
    assert single.setting is not None
    assert "active=5" in single.setting.use("torch.profiler"), "steps are marked already"
    timed = answer(trace_of(tmp_path, work, step, **make.calibrated(recorded=STEPS, unprofiled=STEPS)), "steps")
    assert (timed.verdict, timed.evidence) == (Verdict.YES, "5 steps timed without the profiler, 1 recorded")


def test_collectives_of_the_host(tmp_path: Path) -> None:
    world = {"distributedInfo": {"backend": "gloo", "rank": 0, "world_size": 2}}
    reduced = make.annotation("gloo:all_reduce", 0, 9)
    found = answer(trace_of(tmp_path, "launch 0-5 -> stream 7: 10-110", reduced, **world), "ranks")
    assert found.evidence == "rank 0 of 2, 1 collective on the host, none on a GPU"


def test_device_work_of_an_unknown_format_is_not_there() -> None:
    fit = doctor(corpus("hta-mtia-inference"))
    assert {"gpu-idle", "complete"} <= {each.check.key for each in fit.limits}
    assert "unknown format" in next(each.answer.evidence for each in fit if each.check.key == "complete")


# What helps most, and where it is said.


def test_figures_come_before_names(tmp_path: Path) -> None:
    fit = doctor(trace_of(tmp_path, "launch 0-5 -> stream 7: 10-110"))
    names_only = Fitness(fit.trace, tuple(each for each in fit.answers if not each.check.core))
    assert names_only.setting is not None
    assert names_only.verdict is Verdict.YES
    assert fit.setting is not None
    assert fit.setting.key == "unprofiled"


def test_where_no_setting_gives_what_is_missing_no_other_helps_most(tmp_path: Path) -> None:
    work = "launch 100-105 -> stream 7: 110-210"
    timed = make.calibrated(recorded=STEPS, unprofiled=STEPS)
    whole, cut = (lines(doctor(trace_of(tmp_path, work, *more, **timed))) for more in ([], [make.kernel(20, 9)]))
    assert any(line.startswith("What would help most") for line in whole)
    assert any(line.startswith("No setting makes up for what figures lack") for line in cut)


def test_the_statement_comes_before_the_headline_and_health_is_not_said_twice() -> None:
    path = CASES / "side_stream_wait.json.gz"
    text = CliRunner().invoke(app, ["audit", "--all", str(path)], env={"COLUMNS": "200"}).stdout
    assert text.index("Uncertain: what streams waited for") < text.index("The GPU ")
    assert "stream waits without a recorded event" not in text
    result = json.loads(CliRunner().invoke(app, ["audit", str(path), "--format", "json"]).stdout)
    assert "inferred-waits" in {warning["code"] for warning in result["traces"][0]["health"]}
    assert result["traces"][0]["fit"]["verdict"] == "partly"


def test_doctor_of_several_traces(tmp_path: Path) -> None:
    paths = [str(SAMPLES / "zero_copy-mapped.json.gz"), str(CASES / "side_stream_wait.json.gz")]
    text = CliRunner().invoke(app, ["doctor", *paths], env={"COLUMNS": "200"})
    assert text.exit_code == 0
    assert text.stdout.count("It answers") == 2
    broken = tmp_path / "broken.json"
    broken.write_text("[]")
    result = CliRunner().invoke(app, ["doctor", *paths, str(broken), "--format", "json", "-q"])
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["schema"] == "overlapscope.doctor/1"
    assert [entry["fit"]["verdict"] for entry in found["traces"]] == ["yes", "partly"]
    assert [len(entry["fit"]["answers"]) for entry in found["traces"]] == [len(CHECKS)] * 2
    assert [entry["path"] for entry in found["errors"]] == [str(broken)]
    assert CliRunner().invoke(app, ["doctor", str(broken)]).exit_code == 2


def test_text_of_a_trace_is_made_safe(tmp_path: Path) -> None:
    whole = [make.annotation("tr\x1b[31main", at, 35) for at in (0, 40, 80)]
    path = make.write(
        tmp_path / "t.json", *whole, *[make.call(0, 5, correlation=1), make.kernel(10, 90, correlation=1)]
    )
    assert "\x1b" not in CliRunner().invoke(app, ["doctor", str(path)]).stdout


def test_every_public_trace_has_an_answer_to_every_question(corpus_trace: Path) -> None:
    fit = doctor(open_trace(corpus_trace))
    assert len(fit.answers) == len(CHECKS)
    assert all(each.answer.evidence for each in fit)
    assert all(value is None or value >= 0 for each in fit for value in each.answer.counts.values())
    assert json.loads(json.dumps(fit.to_dict())) == fit.to_dict()
    assert len(fit.statement) < 400


def test_where_calls_were_lost_less_is_to_be_recorded(tmp_path: Path) -> None:
    """Every third kernel has no call: the profiler lost them, and the time of steps helps less."""
    text = "\n".join(f"thread 1: launch {at}-{at + 5} -> stream 7: {at + 10}-{at + 90}" for at in range(0, 1000, 100))
    lost = [make.kernel(at + 92, 5) for at in range(100, 1000, 300)]
    trace = trace_of(tmp_path, text, *lost)
    assert doctor(trace).setting is SHORTER
    assert answer(trace, "launches").verdict is Verdict.PARTLY


def test_where_clocks_differ_that_comes_before_the_cost_of_the_profiler(tmp_path: Path) -> None:
    text = "\n".join(f"thread 1: launch {at + 60}-{at + 65} -> stream 7: {at}-{at + 50}" for at in range(0, 1000, 100))
    assert doctor(trace_of(tmp_path, text)).setting is ONE_CLOCK


def test_without_accesses_races_are_suspected_at_most(tmp_path: Path) -> None:
    copying = trace_of(tmp_path, "thread 1: copy 4KiB pinned HtoD 0-5 -> stream 7: 10-20")
    assert answer(copying, "tensors").verdict is Verdict.NO
    assert "OVL102 and OVL104 say nothing" in answer(copying, "tensors").evidence
    without = trace_of(tmp_path, "thread 1: launch 0-5 -> stream 7: 10-20")
    assert answer(without, "tensors").verdict is Verdict.DOES_NOT_ARISE


def test_what_was_not_recorded_is_not_said_to_be_unused() -> None:
    """The samples use DataLoaders and modules of which they note nothing."""
    for name in ("dataloader_train-pageable-blocking", "prefetcher-prefetcher"):
        trace = open_trace(SAMPLES / f"{name}.json.gz")
        for key in ("loaders", "modules"):
            found = answer(trace, key)
            assert "not recorded" in found.evidence
            batches = any(each.startswith("enumerate(DataLoader)#") for each in trace.names.values)
            assert found.open is (key == "loaders" and batches)


def test_an_audit_and_doctor_name_one_setting() -> None:
    for name in ("gemm_copy-pageable-copy-first-blocking-same.json.gz", "prefetcher-blocking.sqlite.gz"):
        fit = doctor(SAMPLES / name)
        if fit.setting is not None and fit.setting in [each.answer.setting for each in fit.limits]:
            assert fit.statement.endswith(f"Would help most: {fit.to_dict()['setting']['use']}.")


def test_json_of_doctor_has_two_spellings() -> None:
    path = str(SAMPLES / "prefetcher-blocking.json.gz")
    one, two = (CliRunner().invoke(app, ["doctor", path, "-q", *way]) for way in (["--json"], ["--format", "json"]))
    assert (one.exit_code, one.stdout) == (0, two.stdout)
