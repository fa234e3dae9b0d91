"""The page about a job, and the map of ranks and steps on it."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.fleet_ranks import Job as Made, make
from overlapscope.cli.main import app
from overlapscope.fleet.document import summary
from overlapscope.fleet.figures import average_step
from overlapscope.fleet.job import Fold, Job, RankRow, Run, folded, of_step, rank_rows, with_runs
from overlapscope.fleet.ranks import labels, rank_list
from overlapscope.fleet.reduce import SUMMARY, reduce_folder
from overlapscope.fleet.rows import SLOTS
from overlapscope.fleet.schema import COPIES, IDLE, KERNELS, WAITING
from overlapscope.fleet.sentences import most_worth
from overlapscope.html.fleet_page import fleet_html
from tests.test_fleet import fleet

Reduced = tuple[Job, Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Reduced:
    """Six ranks, of which rank 2 has pageable input, and the folder of their results."""
    folder = tmp_path_factory.mktemp("page")
    make(folder / "job", Made(6, stragglers={2: "pageable"}))
    (job,) = reduce_folder(fleet(folder / "job", folder / "out"))
    return job, folder / "out"


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Reduced:
    """Twelve ranks, of which six are late; the last of them, with slow kernels, bounds the step."""
    folder = tmp_path_factory.mktemp("six")
    make(folder / "job", Made(12, stragglers={**dict.fromkeys(range(1, 6), "pageable"), 6: "kernels"}))
    (job,) = reduce_folder(fleet(folder / "job", folder / "out"))
    return job, folder / "out"


@pytest.fixture(scope="module")
def rows(made: Reduced) -> tuple[RankRow, ...]:
    job, folder = made
    return with_runs(job, folder, rank_rows(job))


def names(job: Job, fold: Fold) -> str:
    return labels([job.members[row.member] for row in fold])


def length(row: RankRow, part: str, step: int) -> int:
    return sum(run.end_ns - run.begin_ns for run in row.runs if (run.part, run.step) == (part, step))


def test_the_latest_rank_is_first_and_all_steps_are_there(made: Reduced, rows: tuple[RankRow, ...]) -> None:
    assert made[0].members[rows[0].member].rank == 2
    assert [row.late_ns > 0 for row in rows] == [True] + [False] * 5
    assert [sorted({run.step for run in row.runs}) for row in rows] == [[3, 4, 5]] * 6


def test_runs_of_a_step_follow_each_other_from_its_begin_to_its_end(made: Reduced, rows: tuple[RankRow, ...]) -> None:
    job = made[0]
    for row in rows:
        steps = job.steps[job.steps["member"] == row.member].set_index("step")
        for step in (3, 4, 5):
            mine = [run for run in row.runs if run.step == step]
            assert all(one.end_ns == other.begin_ns for one, other in pairwise(mine))
            assert mine[-1].end_ns - mine[0].begin_ns == steps.loc[step, "end_ns"] - steps.loc[step, "start_ns"]


def test_runs_have_the_times_of_the_tables_to_a_slot(made: Reduced, rows: tuple[RankRow, ...]) -> None:
    job = made[0]
    for row in rows:
        steps = job.steps[(job.steps["member"] == row.member) & (job.steps["step"] == 4)].iloc[0]
        slot = (steps["end_ns"] - steps["start_ns"]) / SLOTS
        assert length(row, KERNELS, 4) == pytest.approx(int(steps["kernels_ns"]), abs=3 * slot)
        assert length(row, COPIES, 4) == pytest.approx(int(steps["exposed_copies_ns"]), abs=2 * slot)


def test_the_others_wait_when_the_straggler_copies(rows: tuple[RankRow, ...]) -> None:
    late, *others = rows
    (copy,) = (run for run in late.runs if run.part == COPIES and run.step == 4)
    assert copy.end_ns - copy.begin_ns > 4_900_000
    assert length(late, WAITING, 4) < 100_000
    for row in others:
        waiting = [run for run in row.runs if run.part == WAITING and run.step == 4]
        assert waiting[0].begin_ns < copy.end_ns - 1_000_000
        assert sum(run.end_ns - run.begin_ns for run in waiting) > 4_500_000


def test_the_map_of_a_step_shows_what_a_gpu_does_after_its_host_has_gone_on() -> None:
    ahead = RankRow(0, 0, (Run(1, KERNELS, 100, 200), Run(2, WAITING, 200, 400)))
    behind = RankRow(1, 0, (Run(1, COPIES, 150, 300), Run(2, KERNELS, 300, 500)))
    first, second = of_step([ahead, behind], 1, one_clock=True)
    assert first.runs == (Run(1, KERNELS, 100, 200), Run(2, WAITING, 200, 300))
    assert second.runs == (Run(1, COPIES, 150, 300),)
    assert of_step([behind], 2, one_clock=False)[0].runs == (Run(2, KERNELS, 0, 200),)


def test_idle_time_of_an_average_step_is_told_by_cause_where_there_is_enough(made: Reduced) -> None:
    job = made[0]
    assert {each.code for each in average_step(job)} == {""}
    slow = replace(job, idle=job.idle.assign(no_kernel_ns=100 * job.idle["no_kernel_ns"]))
    step, *others = average_step(slow)
    cause = next(each for each in others if each.code == "OVL004")
    assert (step.median_ns, step.by_step_ns is not None) == (job.figures.step_ns, True)
    assert cause.by_step_ns is None
    assert cause.least_ns <= cause.median_ns <= cause.most_ns


def test_ranks_that_differ_are_rows_of_their_own(made: Reduced) -> None:
    job = made[0]
    assert [len(fold) for fold in folded(job, rank_rows(job))] == [1, 5]
    kernels = job.figures.times[KERNELS].copy()
    kernels[4] += job.figures.step_ns // 10
    slower = replace(job, figures=replace(job.figures, times={**job.figures.times, KERNELS: kernels}))
    assert [names(job, fold) for fold in folded(slower, rank_rows(job))] == ["rank 2", "ranks 0-1, 3, 5", "rank 4"]
    other = job.findings.assign(code=job.findings["code"].where(job.findings["member"] != 0, "OVL099"))
    assert len(folded(replace(job, findings=other), rank_rows(job))) == 3


def test_of_many_late_ranks_those_that_save_most_are_shown_in_order(six: Reduced) -> None:
    job, folder = six
    places = most_worth(job, 4)
    assert (places[:3], places[-1]) == ([0, 1, 2], len(job.late.ranks) - 1)
    assert most_worth(job, 99) == list(range(len(job.late.ranks)))
    table = (folder / SUMMARY).read_text().partition("Late (ms a step)")[2]
    assert re.search(r"\n  …\n  rank 6 +\S+ +\S+ +4\.\d+  slower kernels\n  and 5 more late ranks", table)


def test_long_numbers_stay_apart_and_sentences_stay_whole(made: Reduced) -> None:
    job, reason = made[0], f"what is wrong {'with this trace ' * 12}is here."
    times = {name: values * 1000 if name in {COPIES, IDLE} else values for name, values in job.figures.times.items()}
    traces = job.traces.assign(error=reason)
    traces.loc[traces["rank"] == 0, "status"] = "failed"
    text = summary(replace(job, traces=traces, figures=replace(job.figures, times=times)))
    latest = text.partition("Latest (ms a step)")[2].partition("\n\n")[0].splitlines()
    assert [len(line.split()) for line in latest] == [5, 7, 7, 7, 7]
    assert f" cannot be used: {reason}" in " ".join(text.split()), "said once, of all of them"


def test_the_page_says_who_is_late_and_loads_nothing(made: Reduced) -> None:
    page = fleet_html([made[0]], made[1], {})
    assert "Rank 2 is 4.9" in page
    assert "What the GPU of each rank did in the time of step " in page
    assert page.count("<rect") > 2 * 4 * 3
    assert re.findall(r'title="(ranks? [^"]*)"', page)[:2] == ["rank 2", "ranks 0-1, 3-5"]
    assert "Ranks with the same findings whose times in an average step are within 2 % of the step are one row" in page
    assert re.search(r"<td>HTA</td><td[^>]*>10\.\d ms</td>", page)
    assert re.search(r"<td>waiting in collectives</td><td[^>]*>5\.\d* *</td><td[^>]*>\d+ %</td>", page)
    assert "overlapscope report " in page
    assert not re.search(r"<script|https?:(?!//www\.w3\.org)|<link|<img", page)
    assert "default-src &#x27;none&#x27;" in page


def test_reports_of_single_ranks_are_made_on_demand_and_linked(made: Reduced, tmp_path: Path) -> None:
    arguments = ["fleet", "reduce", str(made[1]), "--page", str(tmp_path / "a job.html"), "--report", "late"]
    run = CliRunner().invoke(app, [*arguments, "--report", "5"])
    assert run.exit_code == 0, run.output
    links = set(re.findall(r'href="([^"]+)"', (tmp_path / "a job.html").read_text()))
    assert links == {"a%20job-reports/rank-2.html", "a%20job-reports/rank-5.html"}
    assert "pageable-copy" in (tmp_path / "a job-reports" / "rank-2.html").read_text()


def test_late_ranks_without_a_report_are_named(six: Reduced, tmp_path: Path) -> None:
    page = tmp_path / "job.html"
    run = CliRunner().invoke(app, ["fleet", "reduce", str(six[1]), "--page", str(page), "--report", "late"])
    written = {int(file.stem.removeprefix("rank-")) for file in (tmp_path / "job-reports").iterdir()}
    left = sorted({1, 2, 3, 4, 5, 6} - written)
    assert (run.exit_code, len(written), 6 in written) == (0, 4, True)
    assert f"no report of the late {rank_list(left)}: add --report with the number of each" in run.stderr


def test_a_report_that_cannot_be_made_is_named_and_the_page_is_written(made: Reduced, tmp_path: Path) -> None:
    page, arguments = tmp_path / "job.html", ["fleet", "reduce", str(made[1]), "--page", str(tmp_path / "job.html")]
    run = CliRunner().invoke(app, [*arguments, "--report", "6"])
    assert run.exit_code == 1
    assert "no report of rank 6: it has no trace that can be used" in run.stderr
    assert "Rank 2 is 4.9" in page.read_text()
    assert CliRunner().invoke(app, [*arguments, "--report", "six"]).exit_code == 2


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    make(tmp_path / "<job>", Made(2, steps=1))
    page = tmp_path / "page.html"
    run = CliRunner().invoke(app, ["fleet", str(tmp_path / "<job>"), "-j", "1", "--page", str(page)])
    assert run.exit_code == 0
    assert "<job>" not in page.read_text()
    assert "&lt;job&gt;" in page.read_text()
