"""What came of the loops of popular libraries is complete and consistent. Their page has a check of its own."""

from __future__ import annotations

from benchmarks.wild.catalogue import NAMES
from benchmarks.wild.notes import NOT_MEASURED, NOTES, OTHERWISE
from benchmarks.wild.results import FILE, Answers, from_json, to_json
from tests.conftest import ROOT

RESULTS = from_json(FILE.read_text(encoding="utf-8"))
FIGURE_BYTES = 16_000


def test_each_loop_has_one_result_and_a_note() -> None:
    assert sorted([*(each.name for each in RESULTS), *NOT_MEASURED]) == list(NAMES)
    assert set(NOTES) == {each.name for each in RESULTS}
    assert set(OTHERWISE) < set(NOTES)


def test_the_file_of_results_is_what_would_be_written() -> None:
    assert to_json(RESULTS) == FILE.read_text(encoding="utf-8")


def test_times_lie_within_their_bounds() -> None:
    for each in RESULTS:
        for time, (least, most) in zip((each.before_ms, each.after_ms), each.spread_ms, strict=True):
            assert 0 < least <= time <= most, each.name
        for times in (each.predicted, *each.plan):
            assert 0 < times.low_ms <= times.predicted_ms <= times.high_ms, each.name


def test_what_was_predicted_is_the_fix() -> None:
    for each in RESULTS:
        assert each.predicted.changes == each.text.changes, each.name
        assert each.headline
        assert each.text.before != each.text.after, each.name


def test_equal_answers_do_not_differ() -> None:
    for each in RESULTS:
        assert len(each.reference) in (0, 2), each.name
        for found in (each.answers, *each.reference):
            assert found.equal == (found == Answers(True, 0.0, 0.0)), each.name


def test_each_result_has_a_small_figure_and_no_figure_is_left_over() -> None:
    figures = {path.stem: path.stat().st_size for path in (ROOT / "docs" / "images" / "wild").glob("*.png")}
    assert set(figures) == {each.name for each in RESULTS}
    assert max(figures.values()) < FIGURE_BYTES
