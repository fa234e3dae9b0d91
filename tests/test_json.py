"""docs/json.md lists every key of every JSON file that is written, and no other."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from overlapscope import Budget, analyse, baseline_of, open_trace, record
from overlapscope.analysis.analysis import diagnose
from overlapscope.budget.limits import Limits
from overlapscope.calibration.data import published, to_json
from overlapscope.calibration.schema import Calibration, HostAccesses, Loader, ReusedBlocks, SampledPlace, Sampling
from overlapscope.cli.main import app
from overlapscope.diagnosis.catalogue import RULES
from overlapscope.export.tables import save_tables
from overlapscope.model.trace import Trace
from tests import kineto_maker as make
from tests.conftest import CASES, SAMPLES
from tests.json_page import PAGE, keys_of, listed, renamed
from tests.notation import trace_of
from tests.rules.traces import EXPOSED, faulty_traces, issuing, racing_traces, stuck_copy, taking_turns

RECORDED = SAMPLES / "pinning_guide-list-to.json.gz"


def listed_evidence() -> dict[str, set[str]]:
    """The keys of the evidence of each rule."""
    found: dict[str, set[str]] = {}
    for code, key in re.findall(r"^\| (OVL\d+) \| `(\w+)` \|", PAGE.read_text(), re.MULTILINE):
        found.setdefault(code, set()).add(key)
    return found


def old_path(path: str, keys: dict[str, str]) -> str:
    """The path of a key in version 1."""
    outer, nested, _ = path.rpartition(".")
    if not nested:
        return keys[path]
    plain = outer.removesuffix("[]")
    return f"{old_path(plain, keys)}{outer[len(plain) :]}.{keys[path]}"


def as_now(value: Any, keys: dict[str, str]) -> set[str]:
    """The keys in a JSON value, those of version 1 by their names of now."""
    now = {old_path(path, keys): path for path in keys}
    return {now.get(key, key) for key in keys_of(value)}


def printed(*arguments: str | Path) -> Any:
    return json.loads(CliRunner().invoke(app, [*map(str, arguments), "--format", "json"]).stdout)


def test_every_key_of_an_audit_is_on_the_page_and_the_reverse(tmp_path: Path) -> None:
    cut = make.write(tmp_path / "t.json", make.call(0, 1), make.kernel(5, 5))
    calls = [make.call(6000 * number, 5, correlation=number) for number in (1, 2)]
    kernels = [make.kernel(6000 * number + 8, 5, correlation=number) for number in (1, 2)]
    collected = make.host_event("gc.collect (train.py:30)", 7000, 4000, "gc")
    named = make.write(tmp_path / "n.json", *calls, *kernels, collected)
    outputs = [
        printed("audit", RECORDED, cut, named, tmp_path / "nowhere.json"),
        printed("audit", SAMPLES / "moe_prefetch-pageable.sqlite.gz", "--within", "moe_prefetch"),
    ]
    found = {key for output in outputs for key in keys_of(output)}
    assert found == set(listed("overlapscope.audit/3"))


def test_every_key_of_doctor_is_one_of_an_audit(tmp_path: Path) -> None:
    plain = make.write(tmp_path / "t.json", make.call(0, 1), make.kernel(5, 5))
    output = json.loads(CliRunner().invoke(app, ["doctor", str(RECORDED), str(plain), "--format", "json"]).stdout)
    keys = set(listed("overlapscope.audit/3"))
    assert set(keys_of(output)) <= keys
    assert {key for key in keys if ".fit" in key} <= set(keys_of(output))


def slow_copy(tmp_path: Path) -> Trace:
    """Pinned copies of 10 MB before a kernel each: five take 200 us, one takes 2 ms."""
    events, at = [], 0
    for number in range(6):
        length = 2000 if number == 3 else 200
        events += [
            make.call(10 * number, 5, name="cudaMemcpyAsync", correlation=2 * number + 1),
            make.copy(
                at, length, kinds="HtoD (Pinned -> Device)", size=10_000_000, stream=7, correlation=2 * number + 1
            ),
            make.call(10 * number + 5, 5, correlation=2 * number + 2),
            make.kernel(at + 1 + length, 600, correlation=2 * number + 2),
        ]
        at += length + 610
    return open_trace(make.write(tmp_path / "slow.json", *events))


def test_every_key_of_the_evidence_is_on_the_page_and_the_reverse(tmp_path: Path) -> None:
    unjoined = open_trace(make.write(tmp_path / "t.json", make.call(0, 1), make.kernel(5, 5), make.kernel(100, 5)))
    traces = [unjoined, slow_copy(tmp_path), taking_turns(tmp_path), stuck_copy(tmp_path), issuing(tmp_path)]
    traces += [open_trace(path) for path in sorted(CASES.glob("*.json.gz"))]
    traces.append(open_trace(SAMPLES / "pinning_guide-read-early.json.gz"))
    traces += [*faulty_traces(tmp_path), trace_of(tmp_path, EXPOSED), *racing_traces(tmp_path)]
    found: dict[str, set[str]] = {}
    for trace in traces:
        for finding in diagnose(trace, plan=False).findings:
            keys = found.setdefault(finding.code, set(finding.evidence))
            assert keys == set(finding.evidence), "the same keys in each finding of a rule"
    assert found == listed_evidence()
    assert set(found) == {rule.code for rule in RULES}


def test_every_key_of_a_prediction_is_on_the_page_and_the_reverse() -> None:
    keys = listed("overlapscope.what-if/2")
    calibrated = printed("what-if", SAMPLES / "moe_prefetch-pinned.json.gz", "--change", "non-blocking")
    partly = printed("what-if", CASES / "launch_bound.json.gz", "--change", "pin")
    found = as_now(calibrated, keys) | as_now(partly, keys)
    assert found - {"replay_error"} <= set(keys)
    assert {key for key in keys if "." not in key} <= found


def test_every_key_of_a_check_is_on_the_page_and_the_reverse(tmp_path: Path) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text("[check]\npageable_bytes = 0\n[check.ranges.nowhere]\npageable_bytes = 0\n")
    cut = tmp_path / "cut.json"
    cut.write_text(make.text(make.call(0, 1), make.kernel(5, 5), make.kernel(15, 5))[:-200])
    faulty = SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz"
    found = {key for path in (cut, faulty) for key in keys_of(printed("check", path, "--config", limits))}
    assert found == set(listed("overlapscope.check/1"))


def test_every_key_of_a_baseline_is_on_the_page_and_the_reverse() -> None:
    trace = open_trace(SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz")
    written = baseline_of(trace, Budget(ranges={"round": Limits()})).to_dict()
    assert set(keys_of(written)) == set(listed("overlapscope.baseline/1"))


def test_every_key_of_a_comparison_is_on_the_page_and_the_reverse() -> None:
    """Of findings that are gone and new, each side; the fixed one is no slower than the faulty one."""
    faulty, fixed = (SAMPLES / f"moe_prefetch-{name}.json.gz" for name in ("pageable", "pinned-non-blocking"))
    outputs = [
        printed("compare", faulty, fixed, "--predicted", "pin,non-blocking"),
        printed("compare", SAMPLES / "prefetcher-blocking.json.gz", SAMPLES / "prefetcher-blocking.sqlite.gz"),
        printed("compare", faulty, faulty),
    ]
    found = {key for output in outputs for key in keys_of(output)}
    keys = set(listed("overlapscope.compare/2"))
    assert found - keys == keys - found == set()


def test_every_key_of_the_transfers_is_on_the_page_and_the_reverse() -> None:
    measured = json.loads((SAMPLES / "pinning_sweep.json").read_text())
    assert set(keys_of(measured)) == set(listed("overlapscope.transfers/2"))


def values_at(value: Any, path: str) -> list[Any]:
    """Every value in JSON data that has this path, those in lists one by one: a list of one is as good as its entry."""
    found = [value]
    for part in path.split("."):
        name = part.removesuffix("[]")
        inner = [each[name] for each in found if name in each]
        found = [entry for each in inner for entry in (each if isinstance(each, list) else [each])]
    return found


NEWER = ("loaders", "host_accesses", "reused_blocks", "sampling", "unprofiled_samples")
"""What the keys begin with that version 1 did not have."""


def old_paths() -> dict[str, str]:
    """The path that each key of a calibration had in version 1."""
    return {key: old or key for key, old in renamed("overlapscope.calibration/2").items()}


def test_every_key_of_a_recording_is_on_the_page_and_the_reverse(tmp_path: Path) -> None:
    """The sample has version 1 of the schema; of what is recorded now, a machine without a GPU shows a part."""
    keys = set(listed("overlapscope.calibration/2"))
    sample = json.loads(gzip.decompress(RECORDED.read_bytes()))["overlapscope"]
    assert sample["schema"] == "overlapscope.recording/1"
    devices = {key for key in keys_of(sample) if key.startswith("devices[]")}
    newer = {key for key in keys if key.startswith(NEWER)}
    assert set(keys_of(published(sample))) - devices - {"loaders", "unprofiled_samples"} == keys - newer
    none = np.empty(0, np.int64)
    noted = Calibration(
        loaders=(Loader("train.py:3", 1, True, 2, False, "Batch", "Batch", 9, 8, 7, True, (0,)),),
        host_accesses=HostAccesses(none, none, none),
        reused_blocks=ReusedBlocks(none, none),
        sampling=Sampling(3, 2, 1, 6),
        unprofiled_samples=(SampledPlace("step (train.py:3)", 2),),
    )
    assert {key for key in keys_of(to_json(noted)) if key.startswith(NEWER)} == newer
    assert devices == {key for key in listed("overlapscope.transfers/2") if key.startswith("devices[]")}
    with record(tmp_path / "t.json", steps=1, warmup=0, unprofiled=1, device="cpu") as recording:
        recording.run(lambda: None)
    now = json.loads((tmp_path / "t.json").read_text())["overlapscope"]
    assert set(keys_of(now)) <= keys
    assert now["schema"] == "overlapscope.calibration/2"


def test_every_key_of_a_recording_has_its_old_path_on_the_page() -> None:
    """All of version 1 but the two keys around what stands by itself now; and the numbers are the same."""
    sample = json.loads(gzip.decompress(RECORDED.read_bytes()))["overlapscope"]
    devices = {key for key in keys_of(sample) if key.startswith("devices[]")}
    old_keys = {key: old for key, old in old_paths().items() if not key.startswith(NEWER)}
    assert set(old_keys.values()) == set(keys_of(sample)) - devices - {"issue", "steps"}
    for key, old in old_keys.items():
        if key.endswith(("_ns", "_bytes", ".count", ".tensor")):
            assert values_at(published(sample), key) == values_at(sample, old)


def test_every_key_of_the_metadata_beside_tables_is_on_the_page_and_the_reverse(tmp_path: Path) -> None:
    save_tables(analyse(CASES / "prefetched.json.gz"), tmp_path)
    about = json.loads((tmp_path / "metadata.json").read_text())
    assert set(keys_of(about)) == set(listed("metadata.json"))
