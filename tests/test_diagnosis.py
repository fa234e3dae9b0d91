"""Does the diagnosis name the cause that is known? Programs with one fault each, their fixed twins, damaged copies."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overlapscope import Config, analyse, open_trace
from overlapscope.analysis.analysis import diagnose
from overlapscope.diagnosis.catalogue import CLAIMING, MOVED, RULES
from overlapscope.diagnosis.finding import Confidence, Severity
from overlapscope.model.enums import Direction
from overlapscope.report.content import audit
from tests import kineto_maker as make
from tests.conftest import CASES, SAMPLES, audited, corpus_files, trace_id
from tests.opened import diagnosis_of, planned, swept, trace_at
from tests.rules import KINETO, NSYS, codes, loop, program, top, without

LOOPS: dict[str, str | None] = {
    "no_prefetch_distance": "OVL006",
    "prefetched": None,
    "pageable_nothing_waits": None,
    "pageable_own_thread": "OVL001",
    "strided_view": "OVL001",
    "one_stream": "OVL002",
    "blocking_external_stream": "OVL003",
    "non_blocking_external_stream": None,
    "explicit_stream_sync": "OVL004",
    "item_and_hidden_copies": "OVL005",
    "large_read": "OVL001",
    "launch_bound": "OVL008",
    "device_allocation": "OVL009",
    "host_allocation": "OVL018",
    "many_small_copies": "OVL010",
    "upload_phase": "OVL011",
    "two_copy_streams": "OVL007",
    "both_directions": None,
    "blocking_launches": "OVL012",
    "graph_parallel_branch": None,
    "graph_one_branch": "OVL002",
    "read_after_event": None,
    "full_device": "OVL015",
    "compute_alone": None,
    "pin_in_loop": "OVL002",  # pinning from the cache costs less than the stream that it then shares
    "small_copies_hidden": None,
    "read_after_synchronise": None,
    "collective_exposed": "OVL016",
    "collective_beside": None,
    "collective_copies_beside_shm": "OVL016",  # and OVL023, which costs less than is worth a finding
    "collective_copies_beside_nvlink": "OVL016",
    "small_copies_exposed": "OVL024",
    "results_kept": "OVL018",
    "results_reused": None,
    "full_queue": "OVL020",
    "blocks_together": None,
    "small_copy_overtakes": "OVL005",
}
ONLY_KINETO = {
    *("pin_in_loop", "small_copies_exposed", "results_kept", "results_reused", "full_queue", "blocks_together"),
    *("small_copy_overtakes", *(name for name in LOOPS if name.startswith("collective_"))),
}
"""Of these no other export was made. ``pin_memory()`` took sixty times as long under Nsight Systems."""
"""What tests/cases/loops.py makes, and the code of its cause; None for healthy loops."""

OF_THE_GPU = {name for name, code in LOOPS.items() if code in {"OVL016", "OVL024"}}
"""Loops whose finding is about times of the GPU alone: no call is needed to see it, and none is named."""

SAMPLE_CODES: dict[str, set[str | None]] = {
    "gemm_copy-pageable-*": {"OVL001"},
    "gemm_copy-pinned-*-non-blocking-side": {None},
    "gemm_copy-pinned-*-blocking-side": {None},  # the wait is over before the kernels are
    "gemm_copy-pinned-*-non-blocking-same": {"OVL002"},
    "gemm_copy-pinned-*-blocking-same": {"OVL004"},
    "moe_prefetch-pageable*": {"OVL001"},
    "moe_prefetch-pinned": {"OVL004"},
    "moe_prefetch-pinned-non-blocking": {"OVL005", "OVL008"},  # a read in each block, and many small kernels
    "moe_prefetch-no-host-routing": {
        "OVL006",
        "OVL008",
    },  # as the read is gone, the first fetch and the launches are left
    "moe_prefetch-ahead": {"OVL006", "OVL008"},  # it is fixed: fetching still earlier would win nothing
    "moe_sparse-as-asked": {"OVL001"},
    "pinning_guide-to*": {"OVL001"},
    "pinning_guide-pin*": {"OVL011"},
    "pinning_guide-pin-then-to": {"OVL011", "OVL008"},  # the host pins in the loop, which can take longer than the copy
    "pinning_guide-list-*": {"OVL010"},
    "pinning_guide-tensordict-*": {"OVL010"},
    "pinning_guide-coalesced": {"OVL008"},  # gathering on the host
    "pinning_guide-concurrent": {None},
    "pinning_guide-concurrent-pageable": {"OVL001"},
    "pinning_guide-concurrent-one-stream": {"OVL002"},
    "pinning_guide-concurrent-busy-engine": {"OVL007"},
    "pinning_guide-read-early": {"OVL103"},
    "pinning_guide-read-as-written": {"OVL103"},
    "pinning_guide-read-after-wait": {"OVL011"},
    "dataloader_train-pageable-*": {"OVL001"},
    "dataloader_train-custom-not-pinned": {"OVL001"},
    "dataloader_train-custom-pinned": {None, "OVL008"},
    "dataloader_train-pinned-blocking": {"OVL004"},
    "dataloader_train-pinned-non-blocking": {None},
    "dataloader_train-pinned-item": {"OVL005"},
    "dataloader_train-article-loop": {"OVL005"},
    "prefetcher-blocking": {"OVL001"},
    "prefetcher-non-blocking": {"OVL002"},
    "prefetcher-prefetcher-pageable": {"OVL001"},
    "prefetcher-prefetcher": {None},
    "offload-pageable-*": {"OVL001"},
    "offload-pinned-same": {"OVL002"},
    "offload-pinned-side": {None},
    "scalar_reads-*-deferred": {None},
    "scalar_reads-*": {"OVL005"},
    "self_wait-read-ordered": {"OVL006"},
    "self_wait-read-unordered": {"OVL105"},
    "zero_copy-copied": {None},
    "zero_copy-mapped": {"OVL021"},
    "copy_order-weights-first": {"OVL019"},
    "copy_order-ids-first": {"OVL005"},
    "page_locking-each-step": {"OVL018"},
    "page_locking-once": {"OVL006"},  # the first chunk, a twentieth of the pass
}
"""The cause by name; of several patterns that match, the longest counts."""


def expected(name: str) -> set[str | None]:
    from fnmatch import fnmatchcase

    return SAMPLE_CODES[max((pattern for pattern in SAMPLE_CODES if fnmatchcase(name, pattern)), key=len)]


def samples() -> list[Path]:
    return sorted(path for path in SAMPLES.glob("*-*.gz"))


# The known cause


@pytest.mark.parametrize(
    ("name", "suffix"),
    [(name, suffix) for name in LOOPS for suffix in (KINETO, NSYS) if name not in ONLY_KINETO or suffix == KINETO],
)
def test_the_first_finding_of_a_loop_is_its_known_cause(name: str, suffix: str) -> None:
    found = loop(name, suffix)
    assert top(found) == LOOPS[name], found.findings
    assert found.healthy == (LOOPS[name] in {None, "OVL015", "OVL024"})


@pytest.mark.parametrize("path", samples(), ids=lambda path: path.name)
def test_the_first_finding_of_a_sample_is_its_known_cause(path: Path) -> None:
    name = path.name.removesuffix(f".{KINETO}").removesuffix(f".{NSYS}")
    assert top(diagnosis_of(path, name.partition("-")[0])) in expected(name)


def test_every_case_file_has_a_label() -> None:
    names = {path.name.split(".")[0] for path in CASES.glob("*.gz")}
    assert names == {*LOOPS, "side_stream_wait", "read_too_early"}


def test_a_hazard_comes_first_whatever_it_costs() -> None:
    found = diagnosis_of(SAMPLES / "pinning_guide-read-early.json.gz", "pinning_guide").findings
    assert found[0].idle_ns == 0 < found[1].idle_ns
    assert [finding.rank for finding in found] == list(range(1, len(found) + 1))


def test_every_rule_has_tests_and_healthy_loops_have_no_findings() -> None:
    tested = {path.stem for path in (Path(__file__).parent / "rules").glob("test_*.py")}
    assert tested == {f"test_{entry.code.lower()}" for entry in RULES}
    assert not any(loop(name).findings for name, code in LOOPS.items() if code is None)


# What a finding holds


EVERY = [*sorted(path for path in CASES.glob("*.gz") if path.name.split(".")[0] in LOOPS), *samples()]


def within(path: Path) -> str:
    """The range of a case or sample that is diagnosed."""
    return "pass" if path.parent == CASES else path.name.partition("-")[0]


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_each_lost_nanosecond_has_one_reason(path: Path) -> None:
    found = diagnosis_of(path, within(path))
    by_code = dict.fromkeys((entry.code for entry in CLAIMING), 0)
    for device in found.devices:
        idle = device.idle
        assert (idle.start_ns[1:] >= idle.end_ns[:-1]).all()
        assert (idle.duration_ns > 0).all()
        assert idle.duration_ns.sum() <= found.window.of(device.key.process).total_ns
        for code in by_code:
            by_code[code] += device.idle_ns(code)
    for finding in found.findings:
        if finding.code in by_code and finding.severity is not Severity.HAZARD:
            kinds = [other for other in found.findings if other.code == finding.code]
            assert sum(other.idle_ns for other in kinds) <= by_code[finding.code]
            assert finding.kind is not None or finding.idle_ns == by_code[finding.code]
        assert finding.blocked_ns >= 0
        assert sum(share.idle_ns for share in finding.places) <= finding.idle_ns or finding.idle_ns == 0


@pytest.mark.parametrize("path", swept(EVERY))
def test_json_has_what_is_promised(path: Path) -> None:
    found = planned(path, within(path))
    assert [entry.code for entry in found.findings] == [
        entry.code for entry in diagnosis_of(path, within(path)).findings
    ]
    keys = {
        "code",
        "name",
        "severity",
        "confidence",
        "rank",
        "copies",
        "where",
        "idle_ns",
        "blocked_ns",
        "evidence",
        "message",
        "fix",
    }
    for finding in json.loads(json.dumps([entry.to_dict() for entry in found.findings])):
        assert keys <= finding.keys()
        assert {"range", "source", "stream", "device", "api"} <= finding["where"].keys()
        assert all(0 <= row < len(found.trace.copies) for row in finding["copies"])
        assert finding["message"].endswith(".")
        assert finding["confirm_with"] or finding["confidence"] == "high"


def test_an_audit_carries_the_findings() -> None:
    trace = trace_at(CASES / f"one_stream.{KINETO}")
    (finding,) = audit(trace, "pass").to_dict()["findings"]
    assert (finding["code"], finding["severity"], finding["rank"]) == ("OVL002", "high", 1)
    assert finding["evidence"]["copies"] == len(finding["copies"]) == 4
    assert finding["where"]["api"] == "cudaMemcpyAsync"


@pytest.mark.parametrize("name", [name for name, code in LOOPS.items() if code is not None])
def test_a_finding_names_the_line_of_the_program(name: str) -> None:
    """The cases were recorded with stacks, of the main thread only."""
    source = loop(name).findings[0].where.source
    if name in {"full_device", "pageable_own_thread", *OF_THE_GPU}:
        assert source is None
    else:
        assert source is not None
        assert source.startswith("loops.py(")


def test_both_profilers_lead_to_the_same_numbers() -> None:
    """What a device lost to its first cause, within what the profilers themselves change."""
    for name in (
        "one_stream",
        "blocking_external_stream",
        "explicit_stream_sync",
        "two_copy_streams",
        "graph_one_branch",
    ):
        kineto, nsys = (loop(name, suffix).findings[0] for suffix in (KINETO, NSYS))
        assert kineto.idle_ns == pytest.approx(nsys.idle_ns, rel=0.1)
        assert len(kineto.copies) == len(nsys.copies)


DIFFERENT = {"moe_prefetch-no-host-routing", "dataloader_train-custom-pinned", "pinning_guide-pin-then-to"}
"""Nsight Systems lengthens the host's part of these: by half, from just below to just above noise, and five times."""


@pytest.mark.parametrize(
    "name", sorted({path.name.removesuffix(f".{NSYS}") for path in SAMPLES.glob(f"*.{NSYS}")} - DIFFERENT)
)
def test_both_profilers_lead_to_the_same_first_finding(name: str) -> None:
    tops = {top(diagnosis_of(SAMPLES / f"{name}.{suffix}", name.partition("-")[0])) for suffix in (KINETO, NSYS)}
    assert len(tops) == 1, tops


def test_every_copy_has_a_reason_or_cost_nothing() -> None:
    blocked = loop("one_stream")
    assert blocked.copy_reasons == ("OVL002",) * 4
    looks_hidden = diagnosis_of(SAMPLES / "gemm_copy-pageable-kernels-first-non-blocking-side.json.gz", "gemm_copy")
    assert set(looks_hidden.copy_reasons) == {"OVL001"}
    assert looks_hidden.hidden_ns > 0.5 * looks_hidden.copy_ns, "the trap: they look overlapped"
    assert set(loop("graph_parallel_branch").copy_reasons) <= {None, "OVL008"}


def test_a_healthy_trace_says_so() -> None:
    found = loop("prefetched")
    assert found.summary.startswith("Copies ")
    assert "nothing to gain above" in found.summary
    assert repr(found) == f"<Diagnosis: {found.summary}>"
    empty = analyse(trace_at(CASES / f"one_stream.{KINETO}"), "pass", config=Config(report_share=0.9)).diagnosis
    assert empty.healthy


# What is missing from a trace


@pytest.mark.parametrize("name", [name for name in LOOPS if LOOPS[name] is not None])
def test_without_synchronisation_events_no_cause_is_made_up(name: str, tmp_path: Path) -> None:
    found = without(
        tmp_path, CASES / f"{name}.{KINETO}", lambda event: None if event.get("cat") == "cuda_sync" else event
    )
    if name == "no_prefetch_distance":
        (finding,) = found.findings
        assert finding.code == "OVL000"
        assert "enable_cuda_sync_events" in finding.message
    elif name == "blocking_external_stream":
        assert top(found) == "OVL000", "what waits for what is not recorded"
    elif name == "two_copy_streams":
        assert codes(found) == {"OVL007", "OVL000"}, "that the engine was shared shows in the copies themselves"
    else:
        assert top(found) == LOOPS[name]


@pytest.mark.parametrize("name", [name for name in LOOPS if LOOPS[name] is not None])
def test_without_memory_kinds_no_cause_is_made_up(name: str, tmp_path: Path) -> None:
    def unkind(event: dict[str, Any]) -> dict[str, Any]:
        text = event.get("name", "")
        for kind in ("Pageable", "Pinned"):
            text = text.replace(kind, "Host") if text.startswith("Memcpy") else text
        return event | {"name": text}

    found = without(tmp_path, CASES / f"{name}.{KINETO}", unkind)
    less = {"OVL001": "OVL000", "OVL020": "OVL010"}  # whether a call had to wait is not known
    assert top(found) == less.get(LOOPS[name] or "", LOOPS[name])
    if LOOPS[name] == "OVL001":
        assert "memory kinds" in found.findings[0].message


def test_without_stacks_the_line_is_not_known(tmp_path: Path) -> None:
    found = without(
        tmp_path, CASES / f"one_stream.{KINETO}", lambda event: None if event.get("cat") == "python_function" else event
    )
    assert top(found) == "OVL002"
    assert found.findings[0].where.source is None
    assert found.findings[0].where.op == "aten::copy_"


@pytest.mark.parametrize("name", [name for name in LOOPS if LOOPS[name] is not None])
def test_without_correlations_nothing_is_guessed(name: str, tmp_path: Path) -> None:
    def unjoined(event: dict[str, Any]) -> dict[str, Any]:
        return event | {"args": {key: value for key, value in event.get("args", {}).items() if key != "correlation"}}

    found = without(tmp_path, CASES / f"{name}.{KINETO}", unjoined)
    assert codes(found) <= {"OVL000", "OVL011", "OVL001", "OVL016", "OVL024"}, (
        "what runs after the last kernel needs no call to be seen"
    )
    assert all(finding.code == "OVL000" for finding in found.findings[:1] if name not in {"large_read", *OF_THE_GPU})


@pytest.mark.parametrize("name", ["one_stream", "strided_view", "explicit_stream_sync", "item_and_hidden_copies"])
def test_copies_without_their_calls_are_told_apart_from_a_late_host(name: str, tmp_path: Path) -> None:
    """Only the copies' correlations are gone: what held the host may have been a copy, and nothing else is said."""

    def unjoined(event: dict[str, Any]) -> dict[str, Any]:
        if event.get("cat") != "gpu_memcpy":
            return event
        return event | {"args": {key: value for key, value in event["args"].items() if key != "correlation"}}

    found = without(tmp_path, CASES / f"{name}.{KINETO}", unjoined)
    assert top(found) in {"OVL000", LOOPS[name]}


def test_an_export_without_calls_can_be_diagnosed(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    path.write_bytes(gzip.decompress((CASES / f"prefetched.{NSYS}").read_bytes()))
    with sqlite3.connect(path) as file:
        file.execute("drop table CUPTI_ACTIVITY_KIND_RUNTIME")
    assert codes(diagnose(open_trace(path))) <= {"OVL000", "OVL011"}


# Single decisions


def test_two_processes_are_not_mixed(tmp_path: Path) -> None:
    """One process's pageable copy does not excuse the late launches of another."""
    found = program(
        make.call(0, 900, name="cudaMemcpyAsync", correlation=9, pid=2, tid=2),
        make.copy(5, 890, device=1, correlation=9),
        make.call(0, 4, correlation=1),
        make.kernel(5, 100, correlation=1),
        make.call(900, 4, correlation=2),
        make.kernel(905, 100, correlation=2),
    )(tmp_path)
    first = next(device for device in found.devices if device.key.process == 1)
    assert first.idle_ns("OVL001") == 0
    assert first.idle_ns("OVL008") > 700_000


def test_kernels_that_follow_closely_are_no_loss(tmp_path: Path) -> None:
    """A hundred kernels of 5 us, 1.5 us apart, issued long before."""
    events = [make.call(number, 1, correlation=number + 1) for number in range(100)]
    events += [make.kernel(200 + 6.5 * number, 5, correlation=number + 1) for number in range(100)]
    found = program(*events)(tmp_path)
    assert found.healthy
    assert found.idle_ns == 0


def test_held_time_never_exceeds_the_window(tmp_path: Path) -> None:
    """Two threads in pageable copies at once."""
    events = [make.call(0, 4, correlation=1), make.kernel(5, 100, correlation=1)]
    for tid in (1, 2):
        events += [make.call(10, 5000, name="cudaMemcpyAsync", correlation=tid + 1, tid=tid)]
        events += [make.copy(20 + 2400 * (tid - 1), 2400, stream=12 + tid, size=30_000_000, correlation=tid + 1)]
    events += [make.call(5020, 4, correlation=9), make.kernel(5026, 100, correlation=9)]
    found = program(*events)(tmp_path)
    assert all(finding.blocked_ns <= found.window.wall_ns for finding in found.findings)


# The catalogue


_RACES = {"OVL101", "OVL102", "OVL103", "OVL104", "OVL105"}
_OF_A_DEVICE = {"OVL015", "OVL016", "OVL021", "OVL023", "OVL024", *_RACES}
"""Rules that claim no idle interval."""


def test_codes_are_in_order_and_each_has_its_file() -> None:
    codes = [entry.code for entry in RULES]
    costs = [f"OVL{number:03}" for number in range(25)]
    assert codes == [*(code for code in costs if code not in MOVED), *sorted(_RACES)]
    folder = Path(__file__).parent.parent / "overlapscope" / "diagnosis" / "rules"
    assert sorted(path.name[:6] for path in folder.glob("ovl*.py")) == [entry.code.lower() for entry in RULES]
    assert {entry.code for entry in CLAIMING} == {entry.code for entry in RULES} - _OF_A_DEVICE


# Public traces with known causes

PUBLIC = {
    "saf-base-oct": "OVL005",
    "saf-wave2": "OVL005",
    "tr-sleep-r0": "OVL016",
    "tr-sleep-r2": "OVL008",
    "hta-alexnet": "OVL009",
    "tl-sglang-decode": "OVL000",
}
"""Segment-anything's masks on the host; a rank that sleeps and one that waits for it; a program's first steps; ROCm
without synchronisation events."""


def test_public_traces_have_the_cause_that_is_known(corpus: Path) -> None:
    paths = {trace_id(path): path for path in corpus_files()}
    for name, code in PUBLIC.items():
        assert top(diagnose(open_trace(paths[name]))) == code, name


def test_any_trace_can_be_diagnosed(corpus_trace: Path) -> None:
    found = audited(corpus_trace).diagnosis
    for device in found.devices:
        assert (device.idle.start_ns[1:] >= device.idle.end_ns[:-1]).all()
        extent = found.window.of(device.key.process).total_ns
        assert 0 <= device.idle.duration_ns.sum() <= extent
    json.dumps([finding.to_dict() for finding in found.findings], allow_nan=False)
    assert not [each for each in found.findings if each.code in _RACES and each.confidence is Confidence.HIGH]
    reasons = np.array([reason or "" for reason in found.copy_reasons])
    unlinked = ~np.isin(found.trace.copies.direction, (Direction.HTOD, Direction.DTOH, Direction.PTOP))
    assert not reasons[unlinked].any()
