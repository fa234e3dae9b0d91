"""The page about a job, and the map of ranks and steps on it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.fleet_ranks import Job as Made
from benchmarks.fleet_ranks import make
from overlapscope.cli.main import app
from overlapscope.fleet.figures import COPIES, KERNELS, WAITING
from overlapscope.fleet.job import Job
from overlapscope.fleet.reduce import reduce_folder
from overlapscope.fleet.step_map import rank_rows
from overlapscope.html.fleet_page import fleet_html
from tests.test_fleet import fleet


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("page")
    make(folder / "job", Made(6, stragglers={2: "pageable"}))
    return reduce_folder(fleet(folder / "job", folder / "out"))


def test_the_latest_rank_is_first_and_all_steps_are_there(job: Job) -> None:
    rows = rank_rows(job)
    assert job.members[rows[0].member].rank == 2
    assert [row.late_ns > 0 for row in rows] == [True] + [False] * 5
    assert [[cell.step for cell in row.cells] for row in rows] == [[3, 4, 5]] * 6


def test_parts_of_a_step_add_up_to_it(job: Job) -> None:
    for row in rank_rows(job):
        for cell in row.cells:
            assert sum(cell.parts.values()) == pytest.approx(cell.end_ns - cell.begin_ns, rel=0.02)


def test_the_straggler_copies_while_the_others_wait(job: Job) -> None:
    late, *others = rank_rows(job)
    for cell in late.cells:
        assert cell.parts[COPIES] > 4_900_000
        assert cell.parts.get(WAITING, 0) < 100_000
    for row in others:
        for cell in row.cells:
            assert cell.parts[WAITING] > 4_500_000
            assert cell.parts[COPIES] < 100_000
            assert cell.parts[KERNELS] > 2_000_000


def test_the_page_says_who_is_late_and_loads_nothing(job: Job) -> None:
    page = fleet_html(job)
    assert "Rank 2 holds up the others" in page
    assert page.count("<rect") > 6 * 3 * 3
    assert re.findall(r"rank (\d)</td>", page)[0] == "2"
    assert "overlapscope report " in page
    assert not re.search(r"<script|https?:(?!//www\.w3\.org)|<link|<img", page)
    assert "default-src &#x27;none&#x27;" in page


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    make(tmp_path / "<job>", Made(2, steps=1))
    page = tmp_path / "page.html"
    run = CliRunner().invoke(app, ["fleet", str(tmp_path / "<job>"), "-j", "1", "--page", str(page)])
    assert run.exit_code == 0
    assert "<job>" not in page.read_text()
    assert "&lt;job&gt;" in page.read_text()
