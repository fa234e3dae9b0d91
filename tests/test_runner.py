"""``overlapscope record``: scripts that know nothing of us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nvtx
import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

from overlapscope.capture.watch import watch_ranges
from overlapscope.cli.main import app
from overlapscope.read.opening import open_trace
from tests.conftest import ROOT

LOOP = """
import time, sys, torch
from torch.profiler import record_function
for number in range(6):
    with record_function("step"):
        with record_function(f"inside {number}"):
            torch.ones(3) + 1
    time.sleep(PAUSE)
"""

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Record a script given as text, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def record_script(text: str, *options: str, arguments: tuple[str, ...] = ()) -> Result:
        (tmp_path / "train.py").write_text(text.replace("PAUSE", "0.05"))
        return CliRunner().invoke(app, ["record", "--device", "cpu", *options, "train.py", *arguments])

    return record_script


def names(path: str = "train.json.gz") -> list[str]:
    trace = open_trace(path)
    return [trace.names[number] for number in trace.ranges.name_id]


def inside(path: str = "train.json.gz") -> list[int]:
    return sorted(int(name.split()[1]) for name in names(path) if name.startswith("inside"))


def test_a_script_runs_as_python_would_run_it(run: Run) -> None:
    before = sys.argv, sys.path[:]
    text = "import sys, pathlib\nprint(__name__, sys.argv, pathlib.Path(sys.path[0]).samefile('.'))\nsys.exit(3)"
    result = run(text, arguments=("--output", "x", "-m"))
    assert result.stdout.strip() == "__main__ ['train.py', '--output', 'x', '-m'] True"
    assert result.exit_code == 3
    assert "recorded to train.json.gz" in result.stderr
    assert (sys.argv, sys.path) == before


def test_all_of_a_script_is_recorded(run: Run) -> None:
    assert run(LOOP, "-o", "other.json").exit_code == 0
    assert inside("other.json") == list(range(6))


def test_occurrences_of_a_range_are_recorded(run: Run) -> None:
    assert run(LOOP, "--range", "step", "--steps", "2", "--unprofiled", "1").exit_code == 0
    assert inside() == [3, 4]  # one to settle, one timed, one to warm up
    recording = open_trace("train.json.gz").metadata.recording
    assert recording is not None
    assert recording.unprofiled is not None
    assert recording.unprofiled.wall_ns > 50e6


@pytest.mark.parametrize(("pattern", "found"), [("st*p", [2]), ("inside ?", [2]), ("*", [2])])
def test_a_range_is_named_by_a_pattern(run: Run, pattern: str, found: list[int]) -> None:
    """Of matching ranges inside each other, the outermost is the step."""
    result = run(LOOP, "--range", pattern, "--warmup", "2")
    assert inside() == found
    assert f"recorded 1 step (counted by {pattern!r}) to train.json.gz" in result.stderr


def test_how_many_steps_were_recorded_is_said(run: Run) -> None:
    assert "recorded 5 of 60 steps" in run(LOOP, "--range", "step", "--steps", "60").stderr


TRAINING = """
import torch
from torch.utils.data import DataLoader
weight = torch.nn.Parameter(torch.ones(3))
LOADER = DataLoader(torch.ones(24, 3), batch_size=2)
first = next(iter(LOADER))
optimizers = [torch.optim.SGD([weight]) for _ in range(2)]
for number, batch in enumerate(LOADER):
    with torch.profiler.record_function(f"inside {number}"):
        (weight * batch).sum().backward()
    if number % 2 or not ACCUMULATE:
        for optimizer in optimizers:
            optimizer.step()
"""


def test_a_step_ends_with_the_next_batch_after_an_optimizer_s(run: Run) -> None:
    result = run(TRAINING.replace("ACCUMULATE", "False"), "--steps", "auto")
    assert inside() == [3, 4, 5, 6, 7]  # from the second step on, and one to warm up
    assert "recorded 5 steps (counted by 'enumerate(DataLoader)')" in result.stderr


TAKING_TURNS = TRAINING.replace("for optimizer in optimizers:", "for optimizer in [optimizers[number % 2]]:")


def test_optimizers_that_take_turns_make_a_step_each_with_each_batch(run: Run) -> None:
    result = run(TAKING_TURNS.replace("ACCUMULATE", "False"), "--steps", "auto")
    assert inside() == [3, 4, 5, 6, 7]
    assert "recorded 5 steps" in result.stderr


def test_without_batches_a_step_ends_where_the_same_optimizer_steps_again(run: Run) -> None:
    """The first one steps once, to try it; then two take turns."""
    text = TAKING_TURNS.replace("enumerate(LOADER)", "enumerate(list(LOADER))").replace("ACCUMULATE", "False")
    text = text.replace("_ in range(2)", "_ in range(3)").replace("[number % 2]", "[2 - number % 2 if number else 0]")
    result = run(text, "--steps", "auto", "--warmup", "0")
    assert inside() == list(range(4, 12))
    assert "recorded 4 of 5 steps (counted by 'Optimizer.step#SGD.step')" in result.stderr


def test_steps_over_which_gradients_are_accumulated_are_whole(run: Run) -> None:
    result = run(TRAINING.replace("ACCUMULATE", "True"), "--steps", "auto", "--warmup", "0")
    assert inside() == list(range(4, 12))
    assert "recorded 4 of 5 steps" in result.stderr


def test_steps_are_found_by_batches(run: Run) -> None:
    text = "\n".join(line for line in TRAINING.split("\n") if "optimizer" not in line and "ACC" not in line)
    result = run(text, "--steps", "auto", "--unprofiled", "2")
    assert inside() == [4, 5, 6, 7, 8]  # one to settle, two timed, one to warm up, from the second loop on
    assert "recorded 5 steps (counted by 'enumerate(DataLoader)')" in result.stderr
    recording = open_trace("train.json.gz").metadata.recording
    assert recording is not None
    assert recording.unprofiled is not None
    assert recording.unprofiled.count == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (LOOP, "its range 'step' repeats 6 times: overlapscope audit --within 'step' selects it"),
        (
            "import torch\nx = torch.ones(3)\nfor _ in range(9): x.neg().abs()",
            "2 operators repeats 9 times: overlapscope audit --from",
        ),
        ("import torch\ntorch.ones(3).neg().abs()", "nothing in it repeats"),
    ],
)
def test_a_script_without_steps_is_recorded_as_a_whole(run: Run, text: str, sentence: str) -> None:
    result = run(text, "--steps", "auto")
    assert "fewer than two steps of an optimizer" in result.stderr
    assert "all of the script is recorded" in result.stderr
    assert sentence in result.stderr
    assert Path("train.json.gz").exists()


def test_a_script_without_steps_cannot_be_timed_without_a_profiler(run: Run) -> None:
    result = run(LOOP, "--steps", "auto", "--unprofiled", "2")
    assert result.exit_code == 2
    assert "--steps auto without --unprofiled" in result.stderr


BRIEF = TRAINING.replace("if number % 2 or not ACCUMULATE", "if number < MADE")


def test_one_step_of_an_optimizer_is_no_loop(run: Run) -> None:
    """The batches after it are too few to be steps: everything is kept."""
    result = run(BRIEF.replace("MADE", "1"), "--steps", "auto")
    assert result.exit_code == 0
    assert inside() == list(range(12))
    assert "all of the script is recorded" in result.stderr


@pytest.mark.parametrize("warmup", ["1", "3"])
def test_what_was_recorded_before_too_few_steps_is_kept(warmup: str, run: Run) -> None:
    """The optimizer stops before one step is recorded; it was recorded until its second step."""
    result = run(BRIEF.replace("MADE", "3"), "--steps", "auto", "--warmup", warmup)
    assert result.exit_code == 0, result.stderr
    assert inside() == [0, 1]
    assert "the script ended before a step was recorded" in result.stderr
    assert "recorded to train.json.gz" in result.stderr


def test_too_few_steps_are_said_with_the_ranges_that_there_were(run: Run) -> None:
    result = run(BRIEF.replace("MADE", "4"), "--steps", "auto", "--unprofiled", "9")
    assert result.exit_code == 2
    assert "the script ended after 2 of 16 steps, counted by 'enumerate(DataLoader)'" in result.stderr
    assert "--unprofiled" in result.stderr
    assert "Optimizer.step#SGD.step (8x)" in result.stderr
    assert "step()" not in result.stderr


LONG = TRAINING.replace("torch.ones(24, 3)", "torch.ones(60, 3)").replace("ACCUMULATE", "False")


def test_without_options_steps_are_recorded_and_some_timed_without_the_profiler(run: Run) -> None:
    result = run(LONG)
    assert result.exit_code == 0, result.stderr
    assert "recorded 5 steps (counted by 'enumerate(DataLoader)')" in result.stderr
    assert inside() == [9, 10, 11, 12, 13]  # after two to find them, one to settle, five timed, one to warm up
    recording = open_trace("train.json.gz").metadata.recording
    assert recording is not None
    assert recording.unprofiled is not None
    assert recording.unprofiled.count == 5
    assert recording.sampling is not None


def test_without_options_a_short_loop_is_recorded_all_the_same(run: Run) -> None:
    """Too short to time steps first."""
    result = run(TRAINING.replace("ACCUMULATE", "False"))
    assert "recorded 5 steps" in result.stderr
    assert inside() == [3, 4, 5, 6, 7]


def test_without_options_a_script_without_steps_is_recorded_as_a_whole(run: Run) -> None:
    result = run(LOOP)
    assert "all of the script is recorded" in result.stderr
    assert inside() == list(range(6))


def test_all_of_a_script_can_be_asked_for(run: Run) -> None:
    assert run(LONG, "--steps", "all").exit_code == 0
    assert inside() == list(range(30))


def test_ranges_of_other_threads_are_no_steps_and_are_named(run: Run) -> None:
    text = """
import threading, torch
def work():
    with torch.profiler.record_function("worker 1"): pass
other = threading.Thread(target=work); other.start(); other.join()
"""
    result = run(text, "--range", "worker*")
    assert result.exit_code == 2
    assert "only ranges of the main thread are counted, other threads opened: worker 1 (1x)" in result.stderr


def test_a_recording_without_a_gpu_is_not_sent_to_audit(run: Run) -> None:
    result = run(LOOP)
    assert "no GPU work to audit" in result.stderr
    assert "analyse it with" not in result.stderr


def test_a_recording_without_a_gpu_says_what_it_shows(run: Run) -> None:
    text = """
import time
import torch
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, index):
        time.sleep(0.05)
        return torch.ones(4)
for batch in torch.utils.data.DataLoader(Slow()):
    batch.sum()
"""
    result = run(text)
    assert "the loop waited for batches of its DataLoader for " in result.stderr
    assert "overlapscope ranges " in result.stderr


@pytest.fixture
def profiler_calls(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The runtime of a GPU that there is not, for the calls with which a program brackets what to record."""
    runtime = SimpleNamespace(cudaProfilerStart=lambda: 0, cudaProfilerStop=lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    monkeypatch.setattr("torch.cuda.profiler.cudart", lambda: runtime, raising=False)
    monkeypatch.setattr("torch.cuda.profiler.check_error", lambda _: None)
    return runtime


BRACKETED = LOOP.replace('    with record_function("step")', "    CALLS\n    with record_function('step')")
START, STOP = "torch.cuda.profiler.start()", "torch.cuda.cudart().cudaProfilerStop()"


@pytest.mark.usefixtures("profiler_calls")
@pytest.mark.parametrize(
    ("calls", "options", "found"),
    [
        (f"if number == 2: {START}\n    if number == 4: {STOP}", (), [2, 3]),
        (f"if number == 2: {START}", (), [2, 3, 4, 5]),
        (f"if number == 4: {STOP}", (), [0, 1, 2, 3]),
        (f"if number in (1, 4): {START}\n    if number in (3, 5): {STOP}", (), [1, 2]),
        (f"if number == 2: {START}\n    if number == 4: {STOP}", ("--range", "step"), [1]),
        (f"{START} if number % 2 else {STOP}", ("--duration", "60"), [0, 1, 2, 3, 4, 5]),
    ],
)
def test_what_a_script_brackets_itself_is_recorded(
    run: Run, calls: str, options: tuple[str, ...], found: list[int]
) -> None:
    """Options that select a part take precedence."""
    result = run(BRACKETED.replace("CALLS", calls), *options)
    assert result.exit_code == 0, result.stderr
    assert inside() == found
    assert result.stderr.count("called cudaProfilerStop") == (not options and "Stop" in calls)


def test_a_stretch_of_time_is_recorded(run: Run) -> None:
    result = run(LOOP, "--delay", "0.12", "--duration", "0.1")
    assert result.exit_code == 0
    found = inside()
    assert found == list(range(found[0], found[-1] + 1))
    assert 1 <= len(found) <= 4
    assert 0 not in found
    assert 5 not in found
    assert "the script goes on" in result.stderr
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_duration_longer_than_the_script_records_to_its_end(run: Run) -> None:
    assert run(LOOP, "--duration", "60").exit_code == 0
    assert inside() == list(range(6))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--delay", "60"), "ended before the delay of 60 s"),
        (("--range", "nothing"), "no range named 'nothing'; the script's main thread opened: step (6x), inside 0 (1x)"),
        (("--range", "step", "--steps", "60"), ""),
        (
            ("--range", "step", "--warmup", "60"),
            "the script ended after 6 of 61 steps, ranges named 'step', that --steps, --warmup and",
        ),
        (("-o", "no/folder.json"), "cannot be written"),
    ],
)
def test_what_could_not_be_recorded_is_said(run: Run, options: tuple[str, ...], sentence: str) -> None:
    result = run(LOOP, *options)
    assert sentence in result.stderr.replace("\n", " ")
    assert result.exit_code == (2 if sentence else 0)
    assert Path("train.json.gz").exists() == (not sentence)
    assert "Traceback" not in result.stderr


def test_there_is_no_such_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, sentence in ((["missing.py"], "no such script"), (["-m", "missing_module"], "no such module")):
        result = CliRunner().invoke(app, ["record", "--device", "cpu", *arguments])
        assert (result.exit_code, sentence in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--rnage", "step"), "No such option: --rnage (Possible options: --range)"),
        (("--steps", "3"), "--steps counts steps: say what a step is with --range NAME, or use --steps auto"),
        (("--unprofiled", "3"), "--unprofiled counts steps"),
        (("--warmup", "0"), "--warmup counts steps"),
        (("--steps", "0", "--range", "step"), "--steps takes a number from 1 on, auto or all, not '0'"),
        (("--steps", "auto", "--range", "step"), "give --range, or auto, not both"),
        (("--steps", "auto", "--delay", "1"), "leave --range and --steps out"),
        (("--range", "step", "--delay", "1"), "leave --range and --steps out"),
    ],
)
def test_options_that_make_no_sense_are_named_and_the_script_does_not_start(
    run: Run, options: tuple[str, ...], sentence: str
) -> None:
    result = run("print('ran')", *options)
    said = " ".join(result.stderr.replace("│", " ").split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in said


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_without_a_gpu_the_script_does_not_even_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('ran')")
    result = CliRunner().invoke(app, ["record", "train.py"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no CUDA device" in result.stderr


FAILING = """
import nvtx, torch
from torch.utils.data import DataLoader
class Model(torch.nn.Module):
    def forward(self, x):
        try:
            1 / 0
        except ZeroDivisionError:
            raise ValueError("bad batch")
with torch.profiler.record_function("epoch"), nvtx.annotate("step"):
    Model()(torch.ones(3) + 1)
"""


@pytest.mark.parametrize("options", [(), ("--range", "epoch"), ("--range", "nothing"), ("--duration", "60")])
def test_a_script_that_fails_shows_its_own_traceback_first(run: Run, options: tuple[str, ...]) -> None:
    result = run(FAILING, *options)
    traceback = result.stderr[result.stderr.index("Traceback") :]
    assert result.exit_code == 1
    assert traceback.index("ValueError: bad batch") < traceback.index("overlapscope:")
    assert "ZeroDivisionError" in traceback
    assert traceback.count("train.py") == 3
    assert str(ROOT / "overlapscope") not in result.stderr
    assert Path("train.json.gz").exists() == ("--range" not in options)


def test_a_script_s_own_profiler_is_refused_where_it_starts(run: Run) -> None:
    text = "import torch\ntorch.ones(3) + 1\nwith torch.profiler.profile():\n    print('wasted')"
    result = run(text)
    assert result.exit_code == 1
    assert "wasted" not in result.stdout
    assert "line 3" in result.stderr
    assert "switch that one off" in result.stderr
    assert Path("train.json.gz").exists()


def test_the_tracebacks_hook_of_a_script_is_asked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    hook = "lambda kind, error, trace: print('mine', kind.__name__, trace.tb_lineno)"
    assert run(f"import sys\nsys.excepthook = {hook}\n1 / 0").stdout == "mine ZeroDivisionError 3\n"


def test_a_script_that_does_not_compile_is_shown_as_python_does(run: Run) -> None:
    result = run("for")
    assert "SyntaxError" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.exit_code == 1


def test_ctrl_c_has_its_exit_status(run: Run) -> None:
    result = run("import torch\ntorch.ones(3) + 1\nraise KeyboardInterrupt")
    assert result.exit_code == 130
    assert Path("train.json.gz").exists()


def test_a_script_may_leave_with_a_message(run: Run) -> None:
    result = run("raise SystemExit('that was wrong')")
    assert result.exit_code == 1
    assert "that was wrong" in result.stderr


def test_a_module_is_run_by_name(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_module.py").write_text("import sys, torch\ntorch.ones(3) + 1\nprint(__name__, sys.argv[1:])")
    monkeypatch.syspath_prepend(tmp_path)
    result = CliRunner().invoke(app, ["record", "--device", "cpu", "-m", "some_module", "--flag"])
    assert (result.exit_code, result.stdout.strip()) == (0, "__main__ ['--flag']")
    assert Path("some_module.json.gz").exists()


def in_a_process(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Record the script in a folder in a process of its own."""
    command = [sys.executable, "-m", "overlapscope", "record", "--device", "cpu", "train.py"]
    python_path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": python_path, **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_a_script_that_forks_is_recorded_once(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, sys, torch\n"
        "from torch.profiler import record_function\n"
        "child = os.fork()\n"
        "if not child: sys.exit(7)\n"
        "other = os.fork()\n"
        "if not other: 1 / 0\n"
        "codes = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in (other, child)]\n"
        "print('children', *codes, flush=True)\n"
        "with record_function('of the parent'): torch.ones(3) + 1\n"
    )
    result = in_a_process(tmp_path)
    assert (result.returncode, result.stdout) == (0, "children 1 7\n"), result.stderr
    assert result.stderr.count("recorded to") == 1
    assert result.stderr.count("ZeroDivisionError") == 1
    assert "of the parent" in names(str(tmp_path / "train.json.gz"))


def test_a_script_finds_what_lies_beside_it(run: Run) -> None:
    result = run(
        "import os, sys\nos.mkdir('x')\nos.chdir('x')\nsys.path.clear()\nprint(os.path.exists(__file__), sys.argv)"
    )
    assert result.stdout.strip() == "True ['train.py']"
    assert names("../train.json.gz") == ["ProfilerStep#1"]


def test_a_profiler_of_the_scripts_own_does_not_end_it(run: Run) -> None:
    text = "import torch\nwith torch.profiler.profile():\n  for _ in range(3):\n"
    text += "    with torch.profiler.record_function('step'): pass\nprint('done')"
    result = run(text, "--range", "step")
    assert result.stdout.strip() == "done"
    assert (result.exit_code, "already recording" in result.stderr) == (2, True)


def test_an_alarm_of_the_scripts_own_is_said(run: Run) -> None:
    before = signal.getsignal(signal.SIGALRM)
    result = run(f"import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\n{LOOP}", "--duration", "0.1")
    assert "uses SIGALRM itself" in result.stderr
    signal.signal(signal.SIGALRM, before)
    run(LOOP, "--duration", "0.1")
    assert signal.getsignal(signal.SIGALRM) is before


def test_a_timer_of_the_scripts_own_is_not_taken_for_ours(run: Run) -> None:
    text = f"import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\n{LOOP}"
    result = run(text, "--delay", "0.12", "--duration", "60")
    assert "sets timers of its own" in result.stderr
    assert 0 not in inside()
    assert inside()


def test_with_nvtx_disabled_scripts_run_as_before(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import nvtx\nwith nvtx.annotate('x'): print('ran')")
    result = in_a_process(tmp_path, NVTX_DISABLE="1")
    assert (result.returncode, result.stdout) == (0, "ran\n"), result.stderr


def test_every_rank_has_a_file_of_its_own(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    assert run("import torch\ntorch.ones(3) + 1").exit_code == 0
    assert run("import torch\ntorch.ones(3) + 1", "-o", "of_{rank}.json").exit_code == 0
    assert Path("train.rank3.json.gz").exists()
    assert Path("of_3.json").exists()
    monkeypatch.delenv("RANK")
    assert run("import torch\ntorch.ones(3) + 1", "-o", "of_{rank}.json").exit_code == 0
    assert Path("of_0.json").exists()


def test_names_that_only_nvtx_knows_reach_the_trace(run: Run) -> None:
    text = """
import nvtx, torch
@nvtx.annotate("decorated")
def work(): torch.ones(3) + 1
with nvtx.annotate("outer"):
    work()
nvtx.push_range("pushed"); nvtx.pop_range()
"""
    assert run(text).exit_code == 0
    assert set(names()) == {"ProfilerStep#1", "decorated", "outer", "pushed"}


def heard(work: Callable[[], Any]) -> list[str]:
    log: list[str] = []
    with watch_ranges(lambda name: log.append(f"+{name}"), lambda name: log.append(f"-{name}")):
        work()
    return log


def test_of_ranges_inside_each_other_with_one_name_the_outermost_is_heard() -> None:
    def work() -> None:
        with torch.profiler.record_function("a"), nvtx.annotate("a"), torch.profiler.record_function("b"):
            pass
        nvtx.push_range("c")
        nvtx.pop_range()

    assert heard(work) == ["+a", "+b", "-b", "-a", "+c", "-c"]


def test_what_was_watched_is_left_as_it_was() -> None:
    before = (torch.profiler.record_function.__enter__, nvtx.annotate.__call__, nvtx.push_range)
    heard(lambda: None)
    assert (torch.profiler.record_function.__enter__, nvtx.annotate.__call__, nvtx.push_range) == before
