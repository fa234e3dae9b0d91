"""The pytest plugin, on recorded traces: what fails, what it says, and what is skipped."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import overlapscope.plot.timeline  # noqa: F401 - loaded here, it stays for the runs of pytest within
from overlapscope.pytest_plugin import run as runs
from overlapscope.pytest_plugin.overlap import safe_name
from tests.conftest import CASES, ROOT, SAMPLES

PLUGIN = "overlapscope.pytest_plugin.hooks"
UNPINNED = SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz"
PINNED = SAMPLES / "gemm_copy-pinned-copy-first-non-blocking-side.json.gz"
INNER = re.compile(r"overlapscope/\w+/\w+\.py:\d+")
"""A frame of overlapscope in a traceback."""
READING = SAMPLES / "dataloader_train-pinned-item.json.gz"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No plugin but ours, whether or not it is installed; and no GPU."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def run(pytester: pytest.Pytester, code: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=f"import pytest\n{code}")
    return pytester.runpytest("-p", PLUGIN, "--strict-markers", *options)


def body(path: Path, *assertions: str) -> str:
    lines = "".join(f"    {each}\n" for each in assertions)
    return f"def test_step(overlap):\n    run = overlap.open({str(path)!r})\n{lines}"


ASSERTIONS = {
    "run.assert_no('OVL001')": (PINNED, UNPINNED, "no_findings.OVL001"),
    "run.assert_no('scalar-read', 'OVL001')": (PINNED, UNPINNED, "no_findings.OVL001"),
    "run.assert_syncs(at_most=0)": (PINNED, READING, "synchronisations_per_step"),
    "run.assert_scalar_reads(at_most=0)": (PINNED, READING, "scalar_reads_per_step"),
    "run.assert_pageable(at_most=0)": (PINNED, UNPINNED, "pageable_bytes"),
    "run.assert_pageable(2**20, within='*')": (PINNED, UNPINNED, "pageable_bytes"),
    "run.assert_blocked(0.05)": (PINNED, UNPINNED, "blocked_share"),
    "run.assert_hidden(0.9)": (PINNED, UNPINNED, "hidden_share"),
    "run.assert_hidden(0.9, within='gemm_copy')": (PINNED, UNPINNED, "hidden_share"),
    "run.assert_idle(0.1)": (PINNED, UNPINNED, "idle_share.all"),
    "run.assert_idle(copy_call=0.1)": (PINNED, UNPINNED, "idle_share.copy_call"),
    "run.assert_saving(0.1)": (PINNED, UNPINNED, "saving_share"),
}


def both(good: str, bad: str, number: int) -> str:
    """The code of two tests, one that passes and one that fails."""
    return "".join(code.replace("test_step", f"test_{name}_{number}") for name, code in (("good", good), ("bad", bad)))


def failures(result: pytest.RunResult) -> dict[str, pytest.LineMatcher]:
    """What is printed of each test that failed."""
    _, *parts = re.split(r"^_+ (test_\w+) _+$", result.stdout.str(), flags=re.MULTILINE)
    return {name: pytest.LineMatcher(text.splitlines()) for name, text in zip(parts[::2], parts[1::2], strict=True)}


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take most of the time; another test looks at one."""
    monkeypatch.setattr(runs, "save_timeline", lambda *_, **__: None)


@pytest.mark.usefixtures("undrawn")
def test_assertions_pass_for_one_trace_and_fail_for_another(pytester: pytest.Pytester) -> None:
    pairs = [(body(good, assertion), body(bad, assertion)) for assertion, (good, bad, _) in ASSERTIONS.items()]
    result = run(pytester, "".join(both(*pair, number) for number, pair in enumerate(pairs)))
    result.assert_outcomes(passed=len(pairs), failed=len(pairs))
    failed = failures(result)
    for number, (assertion, (_, _, limit)) in enumerate(ASSERTIONS.items()):
        lines = [f"*> *{assertion.partition('(')[0]}*", f"E *FAILED*{limit}:*", "E *at Profiler*"]
        failed[f"test_bad_{number}"].fnmatch_lines(lines)


def test_a_failure_shows_finding_place_fix_and_the_path_of_a_figure(pytester: pytest.Pytester) -> None:
    result = run(pytester, body(UNPINNED, "run.assert_no('OVL001')"))
    result.stdout.fnmatch_lines(
        [
            "E *OVL001 pageable-copy: 6 pageable copies (384 MiB) blocked the host*",
            "E *at ProfilerStep#1 / gemm_copy / round / copy*cudaMemcpyAsync*",
            "E *fix: host = host.pin_memory()*",
            f"E *trace: {UNPINNED}",
        ]
    )
    figure = re.search(r"figure: (\S+\.png)", result.stdout.str())
    assert figure is not None
    assert Path(figure[1]).read_bytes().startswith(b"\x89PNG")
    assert "pytest_plugin/run.py" not in result.stdout.str(), "only the test's own line is shown"


def test_figures_go_where_they_are_wanted(pytester: pytest.Pytester) -> None:
    run(pytester, body(UNPINNED, "run.assert_pageable(0, within='round')"), "--overlap-figures", "pictures")
    assert [path.suffix for path in (pytester.path / "pictures").iterdir()] == [".png"]


def test_trace_and_audit_can_be_asked_directly(pytester: pytest.Pytester) -> None:
    lines = ("assert len(run.trace.copies) == 6", "assert run.audit.diagnosis.findings[0].code == 'OVL001'")
    run(pytester, body(UNPINNED, *lines)).assert_outcomes(passed=1)


def test_what_cannot_be_measured_fails(pytester: pytest.Pytester) -> None:
    result = run(pytester, body(PINNED, "run.assert_syncs(5, within='nowhere')"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *NOT MEASURED*no range 'nowhere'*", "E *figure: none (no range 'nowhere'*"])


@pytest.mark.parametrize(
    ("assertion", "message"),
    [
        ("run.assert_no('OVL999')", "overlap.no_findings: no rule 'OVL999'"),
        ("run.assert_no()", "an assertion without a limit asserts nothing"),
        ("run.assert_hidden(90)", "overlap.hidden_share: is 90, and has to be a share from 0 to 1"),
        (
            "run.assert_idle(copy_cal=0.1)",
            "overlap.idle_share.copy_cal: no such cause or rule; do you mean copy_call",
        ),
    ],
)
def test_an_assertion_that_makes_no_sense_says_so(assertion: str, message: str, pytester: pytest.Pytester) -> None:
    result = run(pytester, body(PINNED, assertion))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"> *{assertion}", f"E *BudgetNotUnderstood: {message}*"])
    assert not INNER.search(result.stdout.str()), "only the test's own line is shown"


def test_a_trace_that_cannot_be_opened_fails_the_test(pytester: pytest.Pytester) -> None:
    result = run(pytester, body(Path("nowhere.json")))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["> *overlap.open(*", "E *TraceNotFound*"])
    assert not INNER.search(result.stdout.str()), "only the test's own line is shown"


# Markers


def test_every_limit_has_a_name_in_markers() -> None:
    from overlapscope.budget.limits import LIMIT_KINDS

    assert sorted(runs.NAMES.values()) == sorted(LIMIT_KINDS)


MARKERS = {
    "no=['OVL001']": (PINNED, UNPINNED),
    "no=('OVL001',), within='gemm*'": (PINNED, UNPINNED),
    "hidden=0.9": (PINNED, UNPINNED),
    "pageable_bytes=0, syncs=0": (PINNED, UNPINNED),
    "idle=0.1": (PINNED, UNPINNED),
    "idle={'copy_call': 0.1}": (PINNED, UNPINNED),
    "blocked=0.1, saving=0.1": (PINNED, UNPINNED),
    "scalar_reads=0": (PINNED, READING),
}


@pytest.mark.usefixtures("undrawn")
def test_a_marker_limits_every_run_of_its_test(pytester: pytest.Pytester) -> None:
    code = ""
    for number, (marker, (good, bad)) in enumerate(MARKERS.items()):
        marked = f"@pytest.mark.overlap({marker})\n"
        code += both(marked + body(good), marked + body(good, f"overlap.open({str(bad)!r})"), number)
    result = run(pytester, code)
    result.assert_outcomes(passed=len(MARKERS), failed=len(MARKERS))
    failed = failures(result)
    for number in range(len(MARKERS)):
        failed[f"test_bad_{number}"].fnmatch_lines(["overlap failed: *", "*figure: *-2.png"])


def test_a_marked_test_without_a_run_fails(pytester: pytest.Pytester) -> None:
    code = "@pytest.mark.overlap(syncs=1)\ndef test_step({}): pass"
    for arguments in ("", "overlap"):
        result = run(pytester, code.format(arguments))
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*marked with overlap, but it has recorded and opened nothing*"])


def test_a_marked_test_that_fails_by_itself_shows_its_own_failure(pytester: pytest.Pytester) -> None:
    result = run(pytester, "@pytest.mark.overlap(hidden=1)\n" + body(UNPINNED, "assert 1 == 2"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *assert 1 == 2"])
    assert "overlap failed" not in result.stdout.str()


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("synchs=1", "overlap.synchs: no such key; do you mean syncs?"),
        ("hidden=2", "overlap.hidden_share: is 2"),
        ("", "overlap: has to be given limits by name"),
        ("'OVL001'", "overlap: has to be given limits by name"),
        ("within=3, syncs=1", "overlap.within: has to be the name of a range"),
        ("within='step'", "overlap: has to be given limits by name"),
    ],
)
def test_a_marker_that_is_malformed_is_an_error_of_its_test_alone(
    marker: str, message: str, pytester: pytest.Pytester
) -> None:
    other = body(PINNED).replace("test_step", "test_other")
    result = run(pytester, f"{other}\n@pytest.mark.overlap({marker})\n{body(PINNED)}")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([f"*test_it.py:5: {message}*"])


# Budgets and baselines


def test_the_limits_of_the_project_can_be_asserted(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", overlapscope="[check]\npageable_bytes = 0\n")
    run(pytester, body(PINNED, "run.assert_budget()")).assert_outcomes(passed=1)
    run(pytester, body(UNPINNED, "run.assert_budget()")).assert_outcomes(failed=1)
    pytester.makefile(".toml", other="[check]\nhidden_share = 0.5\n")
    run(pytester, body(UNPINNED, "run.assert_budget('other.toml')")).assert_outcomes(passed=1)


def test_no_limits_in_the_project_is_an_error(pytester: pytest.Pytester) -> None:
    result = run(pytester, body(PINNED, "run.assert_budget()"))
    result.stdout.fnmatch_lines(["E *no limits in overlapscope.toml or pyproject.toml"])


def test_a_baseline_is_stored_beside_the_tests_and_compared(pytester: pytest.Pytester) -> None:
    good, bad = body(PINNED, "run.assert_baseline()"), body(UNPINNED, "run.assert_baseline()")
    missing = run(pytester, good)
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["E *there is no baseline *: pytest --overlap-update-baseline writes it"])
    run(pytester, good, "--overlap-update-baseline").assert_outcomes(passed=1)
    (path,) = (pytester.path / "overlap_baselines").iterdir()
    assert json.loads(path.read_text())["trace"]["pageable_bytes"] == 0
    run(pytester, good).assert_outcomes(passed=1)
    worse = run(pytester, bad)
    worse.assert_outcomes(failed=1)
    worse.stdout.fnmatch_lines(["E *FAILED  pageable_bytes (baseline): *"])
    assert json.loads(path.read_text())["trace"]["pageable_bytes"] == 0


def test_each_test_run_and_parameter_has_a_baseline_of_its_own(pytester: pytest.Pytester) -> None:
    code = "@pytest.mark.parametrize('size', ['a b', 'a-b', '../x', '../../x'])\n" + body(
        PINNED, "run.assert_baseline()", f"overlap.open({str(PINNED)!r}).assert_baseline(within='round')"
    ).replace("(overlap)", "(overlap, size)")
    pytester.makeini("[pytest]\noverlap_baselines = stored\n")
    run(pytester, code, "--overlap-update-baseline").assert_outcomes(passed=4)
    assert len(list((pytester.path / "stored").iterdir())) == 8
    run(pytester, code).assert_outcomes(passed=4)


def test_safe_names_differ_where_names_do() -> None:
    names = ["test_a.py::test_b[x y]", "test_a.py::test_b[x-y]", "..", "../..", "plain"]
    assert len({safe_name(name) for name in names}) == len(names)
    assert all(re.fullmatch(r"[\w-][\w.-]*", safe_name(name)) for name in names)


# Recording: in a process of its own, since torch can be loaded once only


RECORDING = """
import pytest

@pytest.mark.overlap(syncs=1)
def test_on_a_gpu(overlap):
    with overlap.record(steps=3) as run:
        run.run(lambda: None)
    run.assert_syncs(at_most=1)

def test_tensors_on_a_gpu(overlap):
    overlap.require_gpu()
    raise AssertionError("not reached")

def test_without_gpu_work(overlap):
    with overlap.record(steps=1, device="cpu") as run:
        run.run(lambda: None)
    run.assert_syncs(at_most=1)

def test_too_early(overlap):
    with overlap.record(steps=2, device="cpu") as run:
        run.step()

def test_steps(overlap):
    with overlap.record(steps=2, device="cpu") as run:
        steps = 0
        while not run.done:
            steps += 1
            run.step()
    assert steps == 3
    assert [run.trace.names[n] for n in run.trace.ranges.name_id.tolist()] == ["ProfilerStep#1", "ProfilerStep#2"]
    assert run.path.exists()
    assert overlap.runs == [run]
"""


TWICE = f"""
import sys, pytest
pytest.main(["-p", {PLUGIN!r}, "-rfs", "-W", "ignore"])
print("SECOND")
sys.modules.pop("test_it")
pytest.main(["-p", {PLUGIN!r}, "-rfs", "-W", "ignore", "--overlap-require-gpu", "-k", "on_a_gpu"])
"""


def test_without_a_gpu_recording_is_skipped_with_a_reason_or_fails_where_there_has_to_be_one(
    pytester: pytest.Pytester,
) -> None:
    """And on the CPU, a recording goes its way: without GPU work it shows nothing, and fails."""
    pytester.makepyfile(test_it=RECORDING)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    command = [sys.executable, "-c", TWICE]
    result = subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, env=environment, check=False)
    skipped, _, required = result.stdout.partition("SECOND")
    assert "2 failed, 1 passed, 2 skipped" in skipped, result.stdout
    assert re.search(r"SKIPPED .*overlap: no CUDA device here.*", skipped)
    assert "'cpu'" not in skipped
    assert re.search(r"NOT MEASURED  synchronisations_per_step: no CUDA call", skipped)
    assert re.search(r"CaptureError.*nothing was recorded", skipped)
    assert "2 failed" in required, required
    assert "CaptureError: no CUDA device here" in required


# What loading it costs


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    heavy = ("torch", "matplotlib", "pandas", "numpy", "typer", "overlapscope.budget")
    code = f"import sys, {PLUGIN}; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_opened_traces_need_no_torch(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=body(PINNED, "run.assert_no('OVL001')"))
    pytester.makeconftest("import sys\nsys.modules['torch'] = sys.modules['nvtx'] = None\n")
    command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-q"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, env=environment, check=False)
    assert "1 passed" in result.stdout, result.stdout


def test_a_source_line_is_shown_where_it_was_recorded(pytester: pytest.Pytester) -> None:
    result = run(pytester, body(CASES / "prefetched.json.gz", "run.assert_hidden(1.0)"))
    result.stdout.fnmatch_lines(["E *at *loops.py(*): *"])
