"""A fleet of traces: the map, its executors, and what the reduce finds out about made jobs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing import active_children
from multiprocessing.context import SpawnProcess
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from benchmarks.fleet_ranks import Job as Made, make
from overlapscope import OutputError, TraceNotFound, open_fleet
from overlapscope.cli.main import app
from overlapscope.fleet.executors import DIED, Processes, map_traces, work
from overlapscope.fleet.reduce import Fleet, reduce_folder
from overlapscope.fleet.sources import find_sources
from overlapscope.fleet.store import MAPPERS, Outcome, has_part, is_current, key_of, outcomes, part_path
from tests import kineto_maker
from tests.conftest import SAMPLES
from tests.golden import same_as_golden

RANKS = 20


def here(folder: Path, sources: Sequence[str]) -> Iterator[Outcome]:
    """The executor of tests: one trace after the other in this process."""
    yield from (work(folder, source) for source in sources)


def backwards(folder: Path, sources: Sequence[str]) -> Iterator[Outcome]:
    yield from here(folder, sources[::-1])


def fleet(traces: Path, out: Path) -> Path:
    map_traces(find_sources([str(traces)]), out, here)
    reduce_folder(out)
    return out


def contents(out: Path) -> dict[str, bytes]:
    """Every table, result and text of a fleet, by its name."""
    files = [file for file in out.rglob("*") if file.is_file() and file.parent.name != "runs"]
    return {str(file.relative_to(out)): file.read_bytes() for file in files}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty ranks: rank 17 has pageable input, 3 is cut short, 5 is missing, 9 is there twice."""
    folder = tmp_path_factory.mktemp("job")
    make(folder, Made(RANKS, stragglers={17: "pageable"}, cut=(3,), missing=(5,), twice=(9,)))
    (folder / "not_a_trace.json").write_text("{}")
    return folder


@pytest.fixture(scope="module")
def done(job: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fleet(job, tmp_path_factory.mktemp("out"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four ranks, of which one is cut short, and a file that is no trace."""
    folder = tmp_path_factory.mktemp("small")
    make(folder, Made(4, stragglers={2: "pageable"}, cut=(1,)))
    (folder / "not_a_trace.json").write_text("{}")
    return folder


def test_the_summary_names_the_straggler_and_its_cause_within_a_screen(done: Path) -> None:
    """Its golden text also names what is wrong with the traces."""
    text = open_fleet(done).summary
    lines = text.splitlines()
    assert len(lines) <= 46
    assert max(map(len, lines)) <= 80
    same_as_golden("fleet-damaged", text)


def test_a_summary_of_many_causes_is_no_longer_than_a_screen(tmp_path: Path) -> None:
    late = {2: "pageable", 5: "kernels", 7: "host", 9: "pageable", 11: "host"}
    make(tmp_path / "job", Made(16, steps=5, stragglers=late, cut=(4,), missing=(3,), twice=(8,)))
    found = open_fleet(fleet(tmp_path / "job", tmp_path / "out"))
    assert len(found.summary.splitlines()) <= 46
    same_as_golden("fleet-many-causes", found.summary)
    assert len(found.to_pandas("findings"))


def test_findings_without_idle_time_are_in_the_table_and_not_in_the_summary(done: Path) -> None:
    found = open_fleet(done).to_pandas("findings")
    assert set(found[found["no_kernel_ns"] == 0]["code"]) == {"OVL024"}


def test_nothing_is_lost_and_what_is_wrong_is_named(done: Path) -> None:
    traces = open_fleet(done).to_pandas("traces").set_index("rank")
    assert traces.loc[3, "status"] == "damaged"
    assert (traces["status"] == "failed").sum() == 1


def test_a_truncated_copy_of_a_trace_hides_nothing_of_the_whole_one(tmp_path: Path) -> None:
    make(tmp_path / "job", Made(3, stragglers={2: "pageable"}))
    whole, copy = tmp_path / "job" / "rank2_trace.json.gz", tmp_path / "job" / "a" / "rank2_trace.json.gz"
    copy.parent.mkdir()
    copy.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    found = open_fleet(fleet(tmp_path / "job", tmp_path / "out"))
    assert found.to_pandas("stragglers")["rank"].tolist() == [2]
    said = "rank 2 has 2 traces: rank2_trace.json.gz counts, not a/rank2_trace.json.gz"
    assert said in " ".join(found.summary.split())


def test_savings_are_what_the_job_takes_longer_than_without_late_ranks(tmp_path: Path) -> None:
    """Rank 1 hides rank 2: fixing one of them saves next to nothing, fixing both all that is seen and hidden."""
    steps, late = {}, {}
    jobs = {"one": {1: "pageable"}, "two": {1: "pageable", 2: "kernels"}, "none": {}}
    for name, stragglers in jobs.items():
        make(tmp_path / name, Made(5, stragglers=stragglers))
        found = open_fleet(fleet(tmp_path / name, tmp_path / f"{name}-out"))
        spread = found.to_pandas("spread").query("figure == 'step'").set_index("step")
        steps[name], late[name] = int(spread["median_ns"].iloc[0]), found.to_pandas("stragglers")
        assert spread.index[1:].tolist() == [3, 4, 5]
    assert late["one"]["saving_ns"].item() / 3 == pytest.approx(steps["one"] - steps["none"], rel=0.05)
    first, second = late["two"].to_dict("records")
    assert [(each["rank"], each["round"], each["code"]) for each in (first, second)] == [(1, 1, "OVL001"), (2, 2, "")]
    assert first["saving_ns"] == pytest.approx(0, abs=1000)
    assert second["saving_ns"] / 3 == pytest.approx(steps["two"] - steps["one"], abs=20_000)
    assert second["with_earlier_ns"] / 3 == pytest.approx(steps["two"] - steps["none"], rel=0.07)
    assert late["none"].empty
    same_as_golden("fleet-two-late", open_fleet(tmp_path / "two-out").summary)


def predicted_share(straggler: dict[str, int], found: Fleet) -> float:
    """What the saving is of the step that the summary names, in percent."""
    step = found.to_pandas("spread").query("figure == 'step' and step.isna()")["median_ns"].item()
    return 100 * straggler["saving_ns"] / 4 / step


def test_recorded_ranks_of_which_one_has_pageable_input(tmp_path: Path) -> None:
    """Two ranks of DDP on two H200, and what the same job takes where both are pinned."""
    found = open_fleet(fleet(SAMPLES / "ddp_pageable", tmp_path))
    (straggler,) = found.to_pandas("stragglers").to_dict("records")
    assert (straggler["rank"], straggler["code"], straggler["op"]) == (1, "OVL001", "AllReduce")
    assert found.to_pandas("ranks")["origin"].tolist() == ["content"] * 2
    times = json.loads((SAMPLES / "ddp_times.json").read_text())
    assert f"({predicted_share(straggler, found):.0f} %)" in " ".join(found.summary.split())
    recorded, predicted = times["recorded_step_ms"], straggler["saving_ns"] / 4e6
    assert predicted == pytest.approx(recorded["pageable"] - recorded["pinned"], rel=0.07)


@pytest.mark.parametrize(("cause", "name"), [("host", "fleet-late-host"), ("kernels", "fleet-long-kernels")])
def test_the_cause_of_a_straggler(tmp_path: Path, cause: str, name: str) -> None:
    make(tmp_path / "job", Made(4, stragglers={2: cause}))
    same_as_golden(name, open_fleet(fleet(tmp_path / "job", tmp_path / "out")).summary)


def test_what_costs_every_rank_most_comes_before_the_late_ranks(tmp_path: Path) -> None:
    """And what costs only the late rank, with it."""
    make(tmp_path / "all", Made(4, stragglers=dict.fromkeys(range(4), "pageable")))
    make(tmp_path / "one", Made(4, stragglers={2: "pageable"}))
    of_all, of_one = (open_fleet(fleet(tmp_path / name, tmp_path / f"{name}-out")).summary for name in ("all", "one"))
    lead = of_all.split("\n\n")[1]
    assert lead.startswith("Most costly: OVL001 pageable-copy")
    assert "all 4 ranks have it" in " ".join(lead.split())
    cost = lead.partition("without a kernel for ")[2].partition(" in the")[0].replace("\n  ", " ")
    assert f"no kernel ran for {cost} because of it" in " ".join(lead.split()), "both are of one rank"
    assert "Fix: " in lead
    assert "Most costly" not in of_one
    assert of_one.split("\n\n")[1].startswith("Rank 2 is ")


def test_ranks_whose_files_differ_in_the_process_are_of_one_host(tmp_path: Path) -> None:
    make(tmp_path / "made", Made(2))
    (tmp_path / "job").mkdir()
    for number, file in enumerate(sorted((tmp_path / "made").iterdir())):
        shutil.copy(
            file, tmp_path / "job" / f"run-r{number}__node-1.internal_{700 + number}.16941282013.pt.trace.json.gz"
        )
    assert " 2 ranks on 1 host," in open_fleet(fleet(tmp_path / "job", tmp_path / "out")).summary


def test_clocks_are_aligned_whatever_they_say(tmp_path: Path) -> None:
    found = []
    for skew in (0.0, 10_000_000.0):
        make(tmp_path / f"{skew}", Made(4, stragglers={2: "host"}, skew_us=skew))
        opened = open_fleet(fleet(tmp_path / f"{skew}", tmp_path / f"{skew}-out"))
        assert opened.to_pandas("ranks")["aligned"].all()
        found.append(opened.to_pandas("matched")["late_ns"].tolist())
    assert found[0] == pytest.approx(found[1], abs=10)


def test_without_sequence_numbers_collectives_match_by_name_and_order(tmp_path: Path) -> None:
    make(tmp_path / "job", Made(4, stragglers={2: "host"}, numbered=False))
    found = open_fleet(fleet(tmp_path / "job", tmp_path / "out"))
    assert len(found.to_pandas("matched")) == 9
    assert found.to_pandas("stragglers")["rank"].tolist() == [2]


def test_with_too_few_collectives_ranks_are_compared_by_durations(tmp_path: Path) -> None:
    make(tmp_path / "job", Made(4, steps=2, layers=1, stragglers={2: "host"}))
    same_as_golden("fleet-not-aligned", open_fleet(fleet(tmp_path / "job", tmp_path / "out")).summary)


def test_a_rank_that_only_a_wrong_order_makes_late_is_not_named(tmp_path: Path) -> None:
    """Ranks whose collectives do not run at the same time have other collectives: their clocks say nothing."""
    make(tmp_path / "job", Made(3, numbered=False))
    make(tmp_path / "other", Made(3, numbered=False, stragglers={0: "kernels"}, late_us=90_000))
    shutil.copy(tmp_path / "other" / "rank0_trace.json.gz", tmp_path / "job" / "rank0_trace.json.gz")
    assert open_fleet(fleet(tmp_path / "job", tmp_path / "out")).to_pandas("stragglers").empty


def test_tables_do_not_depend_on_the_executor_or_the_order(small: Path, tmp_path: Path) -> None:
    sources, expected = find_sources([str(small)]), contents(fleet(small, tmp_path / "here"))
    map_traces(sources, tmp_path / "processes", Processes(2))
    for number in (2, 3, 1):
        map_traces(sources, tmp_path / "shards", backwards, (number, 3))
    for name in ("processes", "shards"):
        reduce_folder(tmp_path / name)
        assert contents(tmp_path / name) == expected, name


def test_a_second_run_maps_what_is_new(small: Path, tmp_path: Path) -> None:
    asked: list[str] = []

    def noting(folder: Path, sources: Sequence[str]) -> Iterator[Outcome]:
        asked.extend(Path(source).name for source in sources)
        yield from here(folder, sources)

    some = find_sources([str(small / "rank*")])
    map_traces(some[:-1], tmp_path, noting)
    assert len(asked) == len(some) - 1
    asked.clear()
    map_traces(some, tmp_path, noting)
    assert asked == [Path(some[-1].name).name]
    asked.clear()
    os.utime(some[0].name)  # touched, and the same
    map_traces(find_sources([str(small / "rank*")]), tmp_path, noting)
    assert asked == [Path(some[0].name).name]
    assert [outcome.kept for outcome in outcomes(tmp_path)] == [True] * len(some)


def test_results_of_another_version_are_made_again(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = find_sources([str(job / "rank1_trace.json.gz")])
    with monkeypatch.context() as patch:
        patch.setattr("overlapscope.fleet.store.code_version", lambda *_: "of-old")
        map_traces(sources, tmp_path, here)
    own = tmp_path / "parts" / "notes.parquet"
    own.write_text("not ours")
    map_traces(sources, tmp_path, here)
    (outcome,) = outcomes(tmp_path)
    assert not outcome.kept
    assert is_current(outcome.key)
    assert set((tmp_path / "parts").iterdir()) == {part_path(tmp_path, outcome.key), own}, "no run can use the others"


def test_results_that_another_shard_still_has_stay(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = find_sources([str(job / "rank1_trace.json.gz"), str(job / "rank2_trace.json.gz")])
    with monkeypatch.context() as patch:
        patch.setattr("overlapscope.fleet.store.code_version", lambda *_: "of-old")
        for number in (1, 2):
            map_traces(sources, tmp_path, here, (number, 2))
    map_traces(sources, tmp_path, here, (1, 2))
    assert all(has_part(tmp_path, outcome.key) for outcome in outcomes(tmp_path))
    assert len(list((tmp_path / "parts").iterdir())) == 2


def test_results_are_of_the_code_that_made_them(job: Path) -> None:
    """The files of what a map imports are in the key, but for what has no part in its rows."""
    program = (
        "import sys\n"
        "from overlapscope.fleet.rows import map_trace\n"
        f"map_trace({str(job / 'rank1_trace.json.gz')!r}, '')\n"
        "print(*{name.split('.')[1] for name in sys.modules if name.startswith('overlapscope.')})\n"
    )
    imported = set(subprocess.check_output([sys.executable, "-c", program], text=True).split())
    assert imported - set(MAPPERS) == {"atomic_files", "cache", "document", "errors"}


def test_a_result_that_was_cut_short_is_made_again(job: Path, tmp_path: Path) -> None:
    sources = find_sources([str(job / "rank1_trace.json.gz")])
    map_traces(sources, tmp_path, here)
    (result,) = (tmp_path / "parts").iterdir()
    whole = result.read_bytes()
    result.write_bytes(whole[: len(whole) // 2])
    map_traces(sources, tmp_path, here)
    assert result.read_bytes() == whole


@pytest.mark.parametrize(
    "damage", [b"\xff", b"", b'{"planned": 1e999}\n', b'{"planned": 1}\n{"source": 5}\n', b'{"planned": 1}\n[]\n']
)
def test_a_damaged_record_is_no_result_and_the_next_run_makes_it_again(
    job: Path, tmp_path: Path, damage: bytes
) -> None:
    sources = find_sources([str(job / "rank1_trace.json.gz")])
    map_traces(sources, tmp_path, here)
    record = tmp_path / "runs" / "1-of-1.jsonl"
    (whole,) = outcomes(tmp_path)
    record.write_bytes(damage)
    with pytest.raises(OutputError, match="run it again"):
        outcomes(tmp_path)
    map_traces(sources, tmp_path, here)
    assert outcomes(tmp_path) == [replace(whole, kept=True)]


def test_a_record_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "runs" / "1-of-1.jsonl").mkdir(parents=True)
    with pytest.raises(OutputError, match="cannot be read"):
        outcomes(tmp_path)


def test_a_worker_that_is_killed_loses_no_trace(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first worker is killed as soon as it runs; its trace goes to another one."""
    killed, start = [], SpawnProcess.start

    def killing(process: SpawnProcess) -> None:
        start(process)
        if not killed:
            killed.append(process.pid)
            process.kill()

    monkeypatch.setattr(SpawnProcess, "start", killing)
    sources = find_sources([str(small / "rank[023]*")])
    map_traces(sources, tmp_path, Processes(2))
    assert killed
    assert [outcome.code for outcome in outcomes(tmp_path)] == [""] * len(sources)


def test_a_trace_that_kills_every_worker_is_a_row(job: Path, tmp_path: Path) -> None:
    sources = [str(job / f"rank{number}_trace.json.gz") for number in (1, 2)]
    (tmp_path / "parts").mkdir()
    executor, ended = Processes(1), list[Outcome]()
    running = Thread(target=lambda: ended.extend(executor(tmp_path, sources)))
    running.start()
    killed = set[int | None]()
    while len(killed) < 2 and running.is_alive():
        for child in active_children():
            if child.pid not in killed and len(killed) < 2:
                killed.add(child.pid)
                child.kill()
        time.sleep(0.005)
    running.join()
    assert [outcome.code for outcome in ended] == [DIED, ""]
    assert "signal 9" in ended[0].error


def test_a_full_disk_is_named_and_the_next_run_goes_on(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = find_sources([str(job / "rank1_trace*"), str(job / "rank2_trace*")])
    with monkeypatch.context() as patch:
        patch.setattr("pyarrow.parquet.write_table", _full)
        map_traces(sources, tmp_path, here)
    assert {outcome.code for outcome in outcomes(tmp_path)} == {"output"}
    reduce_folder(tmp_path)
    text = " ".join(open_fleet(tmp_path).summary.split())
    assert "its result cannot be written (No space left on device); the next run tries it again" in text
    map_traces(sources, tmp_path, here)
    assert {outcome.code for outcome in outcomes(tmp_path)} == {""}


def _full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_what_is_wrong_inside_a_worker_is_the_outcome_of_that_trace(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overlapscope.fleet.executors.map_trace", lambda *_: 1 / 0)
    outcome = work(tmp_path, str(job / "rank1_trace.json.gz"))
    assert (outcome.key, outcome.code, outcome.error) == ("", "internal", "ZeroDivisionError: division by zero")


def test_a_run_that_was_ended_is_no_result(small: Path, tmp_path: Path) -> None:
    sources = find_sources([str(small / "rank*")])
    map_traces(sources, tmp_path, here)
    record = tmp_path / "runs" / "1-of-1.jsonl"
    record.write_text("\n".join(record.read_text().splitlines()[:3]) + '\n{"source": "half')
    with pytest.raises(OutputError, match=f"ended after 2 of {len(sources)} traces"):
        outcomes(tmp_path)


def test_a_shard_that_has_not_run_is_named(small: Path, tmp_path: Path) -> None:
    map_traces(find_sources([str(small)]), tmp_path, here, (2, 3))
    with pytest.raises(OutputError, match="shard 1, 3 of 3 has not run yet"):
        outcomes(tmp_path)


def test_one_content_has_one_result(job: Path, tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        shutil.copy(job / "rank1_trace.json.gz", tmp_path / name)
    map_traces(find_sources([str(tmp_path)]), tmp_path / "out", here)
    assert len(list((tmp_path / "out" / "parts").iterdir())) == 1
    key = outcomes(tmp_path / "out")[0].key
    assert has_part(tmp_path / "out", key)
    assert part_path(tmp_path / "out", key).name == f"{key}.parquet"
    assert key_of("another") != key


def test_a_path_may_be_no_utf_8(job: Path, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    for number in (1, 2):
        shutil.copy(job / f"rank{number}_trace.json.gz", folder)
    found = open_fleet(fleet(folder, tmp_path / "out"))
    assert "rank 1" in found.summary
    for table in ("traces", "ranks"):
        assert [Path(name).parent.name for name in found.to_pandas(table)["source"]] == ["?", "?"]
    with pytest.raises(OutputError, match="UTF-8"):
        fleet(folder, folder / "out")


def test_sources_are_folders_patterns_and_files_each_once(tmp_path: Path) -> None:
    for name in ("a/r0.json", "a/b/r1.json.gz", "a/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    file = tmp_path / "a" / "r0.json"
    found = find_sources([str(tmp_path / "a"), str(tmp_path / "a" / "**" / "*.gz"), str(file), file.as_uri()])
    assert [Path(source.name).name for source in found] == ["r1.json.gz", "r0.json"]
    with pytest.raises(TraceNotFound, match="no such file"):
        find_sources([str(tmp_path / "c")])


def test_a_name_without_a_file_and_a_link_to_nothing_are_rows(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    shutil.copytree(small, folder, ignore=shutil.ignore_patterns("not_a*", "rank1*"))
    (folder / "rank1.json").symlink_to(tmp_path / "nowhere.json")
    (tmp_path / "empty").mkdir()
    names = [str(folder), str(tmp_path / "rank4.json"), str(tmp_path / "empty"), str(folder / "*.sqlite")]
    map_traces(find_sources(names), tmp_path / "out", here)
    reduce_folder(tmp_path / "out")
    traces = open_fleet(tmp_path / "out").to_pandas("traces").query("status == 'failed'")
    errors = {Path(row["source"]).name: row["error"] for row in traces.to_dict("records")}
    none = "cannot be read (No such file or directory)"
    assert errors == {"*.sqlite": none, "rank1.json": none, "rank4.json": none, "empty": "no trace in this folder"}


@pytest.fixture
def command_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command maps in this process."""
    monkeypatch.setattr("overlapscope.fleet.executors.Processes", lambda workers: here)


@pytest.mark.usefixtures("command_here")
def test_the_command_maps_reduces_and_says_how_it_went(tmp_path: Path) -> None:
    make(tmp_path / "job", Made(4, stragglers={2: "pageable"}))
    run = CliRunner().invoke(app, ["fleet", str(tmp_path / "job"), "-o", str(tmp_path / "out"), "-j", "1"])
    assert run.exit_code == 0
    assert run.stdout == open_fleet(tmp_path / "out").summary
    make(tmp_path / "job", Made(4, stragglers={2: "pageable"}, cut=(1,)))
    for number, status in (("1/2", 0), ("2/2", 1)):  # one of the second is cut short
        options = ["-o", str(tmp_path / "out"), "-j", "1", "--shard", number]
        run = CliRunner().invoke(app, ["fleet", str(tmp_path / "job"), *options])
        assert (run.exit_code, run.stdout) == (status, "")
        assert ("rank1_trace.json.gz is damaged: the file is truncated" in run.stderr) == bool(status)
    refused = CliRunner().invoke(app, ["fleet", str(tmp_path / "job"), *options, "--page", str(tmp_path / "page.html")])
    assert refused.exit_code == 2
    assert "--shard writes no page and no reports" in refused.stderr
    run = CliRunner().invoke(app, ["fleet", "reduce", "-q", str(tmp_path / "out")])
    assert run.exit_code == 1
    assert "Of the recorded ranks, rank 2 is 4.9" in " ".join(run.stdout.split())


@pytest.mark.usefixtures("command_here")
def test_tables_are_pointed_to_only_where_there_are_some(job: Path, tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"{number}.json").write_bytes(b"")
    arguments = ["fleet", str(tmp_path), str(job / "rank1_trace.json.gz")]
    without = CliRunner().invoke(app, [*arguments, "--page", str(tmp_path / "page.html")])
    kept = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "out")])
    assert "! and 1 more cannot be used: with -o FOLDER, traces.parquet has all" in without.stdout
    assert "with -o FOLDER, traces.parquet has all" in (tmp_path / "page.html").read_text()
    assert "! and 1 more cannot be used: traces.parquet has all" in kept.stdout
    assert CliRunner().invoke(app, [*arguments, "--report", "1"]).exit_code == 2  # no place for it


@pytest.mark.usefixtures("command_here")
def test_a_command_without_room_says_that_the_next_one_goes_on(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["fleet", str(job / "rank1_trace.json.gz"), "-o", str(tmp_path)]
    with monkeypatch.context() as patch:
        patch.setattr("pyarrow.concat_tables", _full)
        run = CliRunner().invoke(app, arguments)
    assert run.exit_code == 2
    assert "No space left on device); make room and run it again: it goes on where it stopped" in run.stderr
    monkeypatch.setattr("overlapscope.fleet.executors.map_trace", lambda *_: 1 / 0)
    assert CliRunner().invoke(app, arguments).exit_code == 0


def test_the_help_of_the_group_shows_what_it_takes() -> None:
    text = CliRunner().invoke(app, ["fleet", "--help"]).stdout
    assert all(word in text for word in ("TRACES", "--output", "--shard", "reduce"))


@pytest.mark.parametrize(
    "arguments", [["nowhere"], ["reduce", "nowhere"], [".", "--shard", "1/2"], [".", "-o", "o", "--shard", "3/2"]]
)
def test_what_the_command_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["fleet", *arguments]).exit_code == 2


def test_tables_can_be_read_by_name(done: Path) -> None:
    found = open_fleet(done)
    for name in found.tables:
        assert len(found.to_arrow(name)) == len(found.to_pandas(name))
    with pytest.raises(KeyError, match="no table 'rank'"):
        found.to_pandas("rank")
    with pytest.raises(OutputError, match="has no results"):
        open_fleet(done / "parts")
    assert repr(found).startswith(f"<Fleet {done}: 21 traces")


def test_a_program_without_a_guard_can_use_processes(job: Path, tmp_path: Path) -> None:
    """Workers import nothing of the program that starts them."""
    program, trace, out = tmp_path / "program.py", str(job / "rank1_trace.json.gz"), tmp_path / "o"
    program.write_text(
        "from pathlib import Path\n"
        "from overlapscope.fleet.executors import Processes, map_traces\n"
        "from overlapscope.fleet.sources import find_sources\n"
        f"map_traces(find_sources([{trace!r}]), Path({str(out)!r}), Processes(1))\n"
    )
    subprocess.run([sys.executable, str(program)], check=True, timeout=120)
    head, line = (out / "runs" / "1-of-1.jsonl").read_text().splitlines()
    assert json.loads(head) == {"planned": 1}
    assert json.loads(line)["code"] == ""


def test_a_step_with_a_number_that_no_column_holds_is_no_step(tmp_path: Path) -> None:
    steps = [kineto_maker.annotation(f"ProfilerStep#{number}", 100 * number, 99) for number in (1, 2)]
    huge = kineto_maker.annotation(f"ProfilerStep#{10**20}", 300, 99)
    (tmp_path / "in").mkdir()
    kineto_maker.write(tmp_path / "in" / "t.json", *steps, huge, kineto_maker.call(0, 9), kineto_maker.kernel(10, 20))
    (job,) = reduce_folder(fleet(tmp_path / "in", tmp_path / "out"))
    assert (job.traces["status"].tolist(), job.steps["step"].dropna().tolist()) == (["complete"], [1, 2])
