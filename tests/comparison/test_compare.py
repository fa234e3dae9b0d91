"""What a comparison says of two sides: changes and their spread, findings, ranges, other work, and where it goes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from overlapscope import (
    Analysis,
    ChangeNotUnderstood,
    RangeNotFound,
    Trace,
    Window,
    analyse,
    compare,
    open_trace,
    what_if,
)
from overlapscope.cli.main import app
from overlapscope.comparison.figures import by_key
from overlapscope.comparison.result import Comparison, amounts_of
from overlapscope.formatting import interval, time
from overlapscope.html.page import comparison_html
from overlapscope.measure.ranges import figures_by_range
from overlapscope.measure.windows import of_occurrence, rows_called, whole
from overlapscope.plot.timeline import draw_timelines
from tests import kineto_maker as make
from tests.comparison.loop import Loop
from tests.comparison.reruns import rerun
from tests.conftest import SAMPLES
from tests.notation import trace_of
from tests.opened import trace_at

FAULTY, FIXED = (
    SAMPLES / f"gemm_copy-{name}-same.json.gz"
    for name in ("pageable-copy-first-blocking", "pinned-copy-first-non-blocking")
)
SIDES = "pageable-copy-first-non-blocking", "pinned-copy-first-non-blocking"
PAGEABLE = Loop(memory="pageable", copy_us=400)
SCATTERED = Loop(memory="pageable", copy_us=400, scatter=0.1)


def traces(folder: Path, loop: Loop, count: int = 3, first: int = 0) -> list[Trace]:
    return [replace(loop, seed=first + number).trace(folder / f"{first + number}") for number in range(count)]


def compared(folder: Path, before: Loop, after: Loop, within: str | None = None) -> Comparison:
    folder.mkdir(exist_ok=True)
    return compare(before.trace(folder / "before"), after.trace(folder / "after"), within)


def codes(found: Comparison) -> list[str]:
    return [remark.code for remark in found.remarks]


def test_equal_traces_have_not_changed(tmp_path: Path) -> None:
    found = compared(tmp_path, PAGEABLE, PAGEABLE)
    assert found.verdict == "no-change"
    assert found.sentence.startswith("No change: ")
    assert not any(figure.changed for figure in found.figures)
    assert not found.findings.gone + found.findings.new + found.findings.changed
    assert not found.work.only
    assert not found.remarks


def test_scattered_recordings_are_no_change(tmp_path: Path) -> None:
    found = compare(traces(tmp_path, SCATTERED), traces(tmp_path, SCATTERED, first=5))
    assert found.verdict == "no-change"
    assert found.wall.before is not None
    assert found.wall.before.width > 0
    assert "the runs take" in found.sentence


def test_five_runs_of_a_recorded_program_a_side_are_no_change(tmp_path: Path) -> None:
    runs = [rerun(SAMPLES / "pinning_guide-to.json.gz", tmp_path, seed) for seed in range(10)]
    found = compare(runs[:5], runs[5:])
    assert found.verdict == "no-change"
    assert found.findings.same
    assert found.findings.gone + found.findings.new + found.findings.changed == ()


def test_a_finding_that_only_some_runs_of_a_side_have_is_neither_gone_nor_new(tmp_path: Path) -> None:
    """Its idle time is near to what is not reported: 4 of 5 traces have it before, 2 of 5 after."""
    short, long = (replace(PAGEABLE, copy_us=us, kernel_us=2_000) for us in (60, 300))
    sides = []
    for side, few in (("before", 1), ("after", 3)):
        (tmp_path / side).mkdir()
        loops = [short] * few + [long] * (5 - few)
        sides.append([loop.trace(tmp_path / side / str(number)) for number, loop in enumerate(loops)])
    found = compare(*sides).findings
    assert "OVL001" in [entry.code for entry in found.same]
    assert not found.gone
    assert [entry.code for entry in compare(sides[0][1:], sides[1][:3]).findings.gone] == ["OVL001"]


def test_a_change_beyond_the_spread_is_one_and_within_it_is_none(tmp_path: Path) -> None:
    fixed = replace(SCATTERED, memory="pinned", copy_us=200)
    found = compare(traces(tmp_path, SCATTERED), traces(tmp_path, fixed, first=5))
    assert found.verdict == "faster"
    little = traces(tmp_path, replace(SCATTERED, kernel_us=297), 5, first=10)
    assert compare(traces(tmp_path, SCATTERED, 5), little).verdict == "no-change"


def test_figures_are_medians_with_their_spread(tmp_path: Path) -> None:
    side = traces(tmp_path, SCATTERED, 3)
    walls = sorted(whole(trace).wall_ns for trace in side)
    recorded = next(figure for figure in compare(side, side).figures if figure.key == "recorded_ns")
    assert recorded.before is not None
    assert (recorded.before.low, recorded.before.median, recorded.before.high) == tuple(walls)


def test_copies_are_counted_by_direction_and_memory(tmp_path: Path) -> None:
    figures = {figure.key: figure for figure in compared(tmp_path, PAGEABLE, Loop(reads=True)).figures}
    gone, new = figures["copies.HtoD.pageable.count"], figures["copies.DtoH.pageable.count"]
    assert (gone.before and gone.before.median, gone.after and gone.after.median) == (4, 0)
    assert (new.before and new.before.median, new.after and new.after.median) == (0, 4)
    assert figures["copies.HtoD.pageable.total_ns"].change == -4 * 400_000
    assert figures["kernels"].change == 0


def test_all_figures_have_the_basis_of_the_time() -> None:
    found = compare(*(trace_at(SAMPLES / f"gemm_copy-{name}-side.json.gz") for name in SIDES))
    figures = by_key(found.figures)
    assert found.before.unprofiled
    assert figures["recorded_ns"].before != figures["wall_ns"].before, "the profiler costs time here"
    for side in ("before", "after"):
        values = {key: getattr(figure, side).median for key, figure in figures.items()}
        parts = values["busy_ns"], values["idle_ns"]
        assert 0.99 * values["wall_ns"] <= sum(parts) <= values["wall_ns"]
    (gone,) = found.findings.gone
    assert gone.before is not None
    assert gone.before.idle_ns <= figures["idle_or_copying_ns"].before.median  # type: ignore[union-attr]


def test_findings_are_gone_new_or_changed(tmp_path: Path) -> None:
    there, back = (compare(*map(open_trace, pair)) for pair in ((FAULTY, FIXED), (FIXED, FAULTY)))
    assert [entry.code for entry in there.findings.gone] == [entry.code for entry in back.findings.new]
    assert "OVL001" in {entry.code for entry in there.findings.gone}
    longer = compared(tmp_path, PAGEABLE, replace(PAGEABLE, copy_us=800))
    assert [entry.code for entry in longer.findings.changed] == ["OVL001"]
    (changed,) = longer.findings.changed
    assert changed.before is not None
    assert changed.after is not None
    assert changed.after.idle_ns > changed.before.idle_ns


def test_steps_are_compared_one_with_one_where_their_numbers_differ(tmp_path: Path) -> None:
    found = compared(tmp_path, replace(PAGEABLE, steps=6), replace(Loop(), steps=4), "step")
    assert codes(found) == ["other-count"]
    assert found.verdict == "faster"
    assert found.wall.before is not None
    figures = {figure.key: figure for figure in found.figures}
    assert figures["kernels"].before == figures["kernels"].after, "one in each step"
    (steps,) = (entry for entry in found.ranges if entry.name == "step")
    assert (steps.before and steps.before.occurrences, steps.after and steps.after.occurrences) == (6, 4)
    assert len(steps.steps) == 6
    assert steps.steps[-1][1] is None
    assert found.why is not None
    assert found.why.reasons[0].words == "pinning 4 copies"


@pytest.mark.parametrize("after", ["pinned-non-blocking", "pinned-blocking", "pageable-non-blocking"])
def test_a_step_is_as_much_faster_as_the_program_however_far_the_host_runs_ahead(after: str) -> None:
    """Times of a range that repeats add up to the time of all; those within it are of the host."""
    paths = (SAMPLES / f"dataloader_train-{name}.json.gz" for name in ("pageable-blocking", after))
    one, two = (trace_at(path) for path in paths)
    found = {entry.name: entry for entry in compare(one, two).ranges}
    for trace, times in zip((one, two), (found["step"].before, found["step"].after), strict=True):
        stated = analyse(trace).stated
        whole = next(entry for entry in figures_by_range(stated.trace) if entry.name == "step")
        assert times is not None
        assert times.total_ns == whole.wall_ns
    copies, stated = found["copy batch"], analyse(two).stated.trace
    rows = stated.ranges.take(rows_called(stated, "copy batch"))
    assert copies.on_host
    assert copies.after is not None
    assert copies.after.total_ns == rows.duration_ns.sum()


def test_steps_of_the_profiler_are_found_without_being_named(tmp_path: Path) -> None:
    sides = []
    for name, loop in (("before", replace(PAGEABLE, steps=6)), ("after", replace(PAGEABLE, steps=4))):
        (tmp_path / name).mkdir()
        events = make.write(tmp_path / name / "t.json", *_numbered(loop), **make.H200)
        sides.append(open_trace(events))
    found = compare(*sides)
    assert codes(found) == ["other-count"]
    assert found.before.typical.window.name == "ProfilerStep#*"
    assert found.verdict == "no-change"


def _numbered(loop: Loop) -> list[make.Event]:
    """The events of a loop with its steps named as torch's profiler names them."""
    from tests.notation import events

    found, number = [], 0
    for event in events(loop.text()):
        if event["name"] == "step":
            event["name"], number = f"ProfilerStep#{number}", number + 1
        found.append(event)
    return found


@pytest.mark.parametrize(
    ("after", "share"),
    [(Loop(kernel="conv"), 0.0), (Loop(blocks=4), 4 / 64), (replace(Loop(), steps=2), 0.5)],
    ids=["other kernels", "other grids", "fewer steps"],
)
def test_other_work_is_said_first_and_not_explained(after: Loop, share: float, tmp_path: Path) -> None:
    found = compared(tmp_path, Loop(), after)
    assert codes(found)[0] == "other-work"
    assert found.work.before_share == pytest.approx(share)
    assert found.verdict == "other-work"
    assert found.why is None
    assert "faster" not in found.sentence


@pytest.mark.parametrize(("before", "after"), [(4, 2), (20, 19)])
def test_other_numbers_of_steps_are_said_with_a_range_that_makes_them_comparable(
    before: int, after: int, tmp_path: Path
) -> None:
    found = compared(tmp_path, Loop(steps=before), Loop(steps=after))
    (remark,) = found.remarks
    assert f"step occurs {before} times before, {after} times after: --within step" in remark.message
    assert (found.verdict, found.why) == ("other-work", None)


def test_a_step_more_often_in_one_trace_of_a_side_is_no_repeat(tmp_path: Path) -> None:
    four, five = Loop().trace(tmp_path / "4"), Loop(steps=5).trace(tmp_path / "5")
    assert codes(compare([four, four, five], [four, four]))[0] == "mixed-work"


def test_a_trace_on_both_sides_is_said(tmp_path: Path) -> None:
    trace = Loop().trace(tmp_path / "a")
    assert codes(compare(trace, trace)) == ["same-trace"]


def test_an_error_about_a_range_names_the_trace(tmp_path: Path) -> None:
    with pytest.raises(RangeNotFound, match=r"^t\.json: no range"):
        compared(tmp_path, Loop(), Loop(), "none such")


def test_gpus_that_are_not_known_are_not_said_to_be_others(tmp_path: Path) -> None:
    found = compare(Loop().trace(tmp_path / "a"), Loop().trace(tmp_path / "b", deviceProperties=[]))
    assert found.verdict == "not-comparable"
    assert found.remarks[0].message.startswith("It is not known whether the GPUs are the same")


def test_other_gpus_profilers_and_ranks_are_said(tmp_path: Path) -> None:
    h100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}
    other = Loop().trace(tmp_path / "h100", **h100)
    assert codes(compare(Loop().trace(tmp_path / "h200"), other)) == ["other-gpu"]
    ranks = [Loop().trace(tmp_path / f"{rank}", distributedInfo={"rank": rank, "world_size": 2}) for rank in (0, 1)]
    assert codes(compare(*ranks)) == ["other-rank"]


def test_kernels_of_two_profilers_are_matched(tmp_path: Path) -> None:
    """The two write the same kernel in different ways."""
    found = compare(
        open_trace(FAULTY), open_trace(FIXED.with_name("gemm_copy-pinned-copy-first-non-blocking-same.sqlite.gz"))
    )
    assert codes(found) == ["other-profiler"]
    assert found.work.before_share > 0.95
    assert (found.verdict, found.why) == ("not-comparable", None)


def test_what_one_side_has_more_of_is_listed(tmp_path: Path) -> None:
    only = compared(tmp_path, Loop(reads=True), Loop()).work.only
    assert [(entry.kind, entry.name, entry.before, entry.after) for entry in only] == [("copy", "DtoH 4 B", 4, 0)]


def test_what_was_predicted_is_compared_with_what_was_reached() -> None:
    before, after = open_trace(FAULTY), open_trace(FIXED)
    named, planned = compare(before, after, predicted=["pin", "non-blocking"]), compare(before, after, predicted="plan")
    assert named.reached is not None
    assert planned.reached is not None
    assert named.wall.after is not None
    assert named.reached.reached_ns == planned.reached.reached_ns == named.wall.after.median
    assert named.reached.predicted_ns == pytest.approx(named.reached.reached_ns, rel=0.1)
    assert len(planned.reached.changes) > 1
    assert planned.reached.predicted_ns < named.reached.predicted_ns, "the plan has more than was done"
    assert "Predicted for pin + non-blocking: " in named.sentence


@pytest.mark.parametrize("known", [True, False])
def test_what_was_predicted_is_said_on_both_bases(known: bool) -> None:
    before, after = (open_trace(path) for path in (FAULTY, FIXED))
    sides = [
        each if known else replace(each, metadata=replace(each.metadata, recording=None)) for each in (before, after)
    ]
    found, expected = compare(*sides, predicted=["pin"]).reached, what_if(sides[0], "pin")
    assert found is not None
    on_one, on_other = (expected.unprofiled, expected)[:: 1 if known else -1]
    for said, basis in ((found, on_one), (found.on_other_basis, on_other)):
        assert said.interval == interval(basis.low_ns, basis.high_ns, basis.predicted_ns)
    assert f" Predicted with{'' if known else 'out'} the profiler: {found.on_other_basis.interval}." in found.sentence
    assert found.narrowed_by == expected.narrowed_by
    assert found.to_dict()["on_other_basis"] == found.on_other_basis.to_dict()


def test_what_cannot_be_compared_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RangeNotFound):
        compared(tmp_path, Loop(), Loop(), "no such range")
    trace = Loop().trace(tmp_path / "trace")
    with pytest.raises(ChangeNotUnderstood):
        compare(trace, trace, predicted=["no-such-change"])


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["compare", *map(str, arguments)], env={"COLUMNS": "80"})


def test_the_command_prints_one_screen_with_the_sentence_first() -> None:
    result = run(FAULTY, FIXED, "-q")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("39.7 ms faster: ")
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 45
    assert any(line.startswith("gone     OVL001") for line in lines)


def test_the_command_writes_json_csv_pages_and_figures(tmp_path: Path) -> None:
    page, figure = tmp_path / "page.html", tmp_path / "both.svg"
    result = run(FAULTY, FIXED, "--format", "json", "--html", page, "--figure", figure, "-q")
    found = json.loads(result.stdout)
    assert found["schema"] == "overlapscope.compare/2"
    assert {entry["code"] for entry in found["findings"]["gone"]} >= {"OVL001"}
    assert found["change"]["figures"]["wall_ns"] == pytest.approx(
        found["after"]["figures"]["wall_ns"] - found["before"]["figures"]["wall_ns"], abs=1
    )
    assert "pinning 6 copies" in page.read_text()
    assert figure.read_text().startswith("<?xml")
    table = run(FAULTY, FIXED, "--format", "csv", "-q").stdout.splitlines()
    assert table[0] == "figure,before,after,change,changed"
    assert len(table) == len(found["change"]["figures"]) + 1


def test_folders_and_patterns_name_several_traces(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    traces(tmp_path / "a", SCATTERED, 3)
    folder = tmp_path / "flat"
    folder.mkdir()
    for number, path in enumerate(sorted((tmp_path / "a").rglob("*.json"))):
        path.rename(folder / f"{number}.json")
    for side in (folder, f"{folder}/*.json"):
        found = json.loads(run(side, side, "--format", "json", "-q").stdout)
        assert len(found["before"]["traces"]) == 3
        assert found["change"]["verdict"] == "no-change"
    assert run(tmp_path / "a" / "0", folder).exit_code == 2
    assert run(f"{folder}/*.sqlite", folder).exit_code == 2


def test_the_exit_status_says_whether_there_is_a_result(tmp_path: Path) -> None:
    assert run(tmp_path / "none.json", FAULTY).exit_code == 2
    assert run(FAULTY, FAULTY, "--within", "nothing").exit_code == 2
    assert run(FAULTY, SAMPLES / "scalar_reads-item.json.gz", "-q").exit_code == 1
    copy = tmp_path / FAULTY.name
    copy.write_bytes(FAULTY.read_bytes())
    assert run(copy, FIXED, "-o", copy).exit_code == 2
    assert copy.read_bytes() == FAULTY.read_bytes()


def test_text_from_traces_is_escaped_on_the_page(tmp_path: Path) -> None:
    found = compared(tmp_path, Loop(kernel="<script>alert(1)</script>"), Loop(kernel="<b>"))
    page = comparison_html(found)
    assert "<script>alert" not in page
    assert "&lt;b&gt;" in page


def test_both_timelines_are_on_one_axis(tmp_path: Path) -> None:
    axes = draw_timelines(compared(tmp_path, PAGEABLE, Loop())).axes
    assert len(axes) == 2
    assert np.diff(axes[0].get_xlim()) == pytest.approx(np.diff(axes[1].get_xlim()))
    assert [axis.get_title(loc="left").partition(":")[0] for axis in axes] == ["before", "after"]


def test_other_amounts_of_data_are_other_work_and_what_fixes_do_to_copies_is_not(tmp_path: Path) -> None:
    found = compared(tmp_path, Loop(), Loop(kib=1024, copy_us=3200, kernel_us=4800))
    assert codes(found)[0] == "other-work"
    assert "256 KiB are copied before, 4 MiB after" in found.remarks[0].message
    for number, fixed in enumerate((Loop(kib=16, copy_us=50), Loop(pieces=4))):
        assert not codes(compared(tmp_path / f"{number}", Loop(), fixed))


@pytest.mark.parametrize("within", ["off*", "*", "bring back"])
def test_work_of_a_range_is_what_is_issued_in_it(within: str) -> None:
    before, after = (SAMPLES / f"offload-{name}.json.gz" for name in ("pageable-same", "pinned-side"))
    found = compare(open_trace(before), open_trace(after), within)
    assert found.work.before_share == found.work.after_share == 1.0
    assert found.same_work


def test_nothing_is_attributed_where_no_effect_can_be_told(tmp_path: Path) -> None:
    h100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}
    found = compare(PAGEABLE.trace(tmp_path / "h200"), Loop().trace(tmp_path / "h100", **h100), predicted="pin")
    assert (found.verdict, found.why, found.reached) == ("not-comparable", None, None)
    assert "faster" not in found.sentence
    other = compare(PAGEABLE.trace(tmp_path / "a"), Loop(kernel="conv").trace(tmp_path / "b"), predicted="pin")
    assert (other.verdict, other.reached) == ("other-work", None)


def test_traces_of_one_side_are_checked_against_each_other(tmp_path: Path) -> None:
    same, other = Loop().trace(tmp_path / "a"), Loop(kernel="conv").trace(tmp_path / "b")
    mixed = compare([same, other], same)
    assert codes(mixed)[0] == "mixed-work"
    assert mixed.verdict == "not-comparable"
    ranks = [Loop().trace(tmp_path / f"{rank}", distributedInfo={"rank": rank, "world_size": 2}) for rank in (0, 1)]
    assert "several-ranks" in codes(compare(ranks, ranks))
    h100 = Loop().trace(tmp_path / "h100", deviceProperties=[{"id": 0, "name": "NVIDIA H100"}])
    assert "mixed-gpus" in codes(compare([same, h100], [same, h100]))


def test_damaged_traces_do_not_count_where_a_side_has_others(tmp_path: Path) -> None:
    whole = Loop().trace(tmp_path / "whole")
    damaged = truncated(tmp_path)
    assert damaged.health.damaged
    found = compare([whole, damaged], Loop().trace(tmp_path / "other"))
    assert codes(found) == ["damaged"]
    assert "left out" in found.remarks[0].message
    assert [run.trace for run in found.before.runs] == [whole]


def truncated(folder: Path) -> Trace:
    """A trace whose file ends early."""
    source = next(iter(folder.rglob("*.json")))
    path = folder / "truncated.json"
    path.write_text(source.read_text()[: source.stat().st_size // 2])
    return open_trace(path)


@pytest.mark.parametrize(("sides", "error"), [((1, 2), TypeError), (([1], None), TypeError), (([], []), ValueError)])
def test_what_is_no_trace_is_refused(sides: tuple[Any, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"compare takes|expected an Analysis"):
        compare(*sides)


def test_a_trace_without_gpu_work_counts_as_recorded(tmp_path: Path) -> None:
    empty = trace_of(tmp_path, "thread 1: range step 0-100 | sync 10-20", **make.H200)
    found = compare(empty, empty)
    assert not found.before.unprofiled
    assert "as recorded" in found.sentence


def test_a_side_may_have_no_calls(tmp_path: Path) -> None:
    work = [make.kernel(20, 30, correlation=1), make.kernel(60, 30, correlation=3)]
    sync = make.call(16, 40, name="cudaStreamSynchronize", correlation=2)
    calls = [make.call(10, 5, correlation=1), sync, make.call(57, 2, correlation=3)]
    one, other = trace_of(tmp_path, *calls, *work), trace_of(tmp_path, *work)
    there, back = compare(one, other).why, compare(other, one).why
    assert there.before_ns == back.after_ns == 70_000
    assert there.after_ns == back.before_ns == 70_000


def test_a_range_that_is_compared_is_not_proposed(tmp_path: Path) -> None:
    found = compared(tmp_path, Loop(), Loop(steps=2, kernel="conv"), "step")
    assert "--within" not in found.remarks[0].message


def test_one_trace_a_side_is_said_to_be_chance_below_a_share(tmp_path: Path) -> None:
    little = compared(tmp_path, Loop(kernel_us=1000), Loop(kernel_us=900))
    assert little.verdict == "faster"
    assert "one trace a side: a change below 16 % may be chance" in little.sentence
    none = compared(tmp_path / "none", Loop(kernel_us=1000), Loop(kernel_us=990))
    assert "one trace a side: a change below 4 % may be chance" in none.sentence


@pytest.mark.parametrize("total_ns", [999_700, 45_060_000, 1_499_900_000, 2_564_000_000, 999, 12_345, 805_400_000])
def test_stated_parts_add_up_to_the_stated_total(total_ns: int) -> None:
    parts = [round(total_ns * part) for part in (0.611, 0.377, -0.013)]
    amounts = amounts_of([*parts, total_ns - sum(parts)])
    assert sum(map(float, amounts)) == pytest.approx(float(time(total_ns).split()[0]))


def occurrence(trace: Trace, name: str, number: int) -> Analysis:
    return analyse(trace, window=of_occurrence(trace, name, number))


def test_single_occurrences_have_the_work_that_was_issued_in_them() -> None:
    before, after = open_trace(FAULTY), open_trace(FIXED)
    every = compare(before, after, "round")
    rounds = range(1, 1 + every.before.typical.occurrences)
    each = [compare(occurrence(before, "round", number), occurrence(after, "round", number)) for number in rounds]
    assert sum(found.work.matched for found in each) == every.work.matched > 0
    assert sum(found.work.before_bytes for found in each) == every.work.before_bytes > 0
    for found in each:
        assert found.work.before_share == found.work.after_share == 1
        sides = found.before, found.after
        times = [by_key(found.figures)["recorded_ns"].before, by_key(found.figures)["recorded_ns"].after]
        assert [time and time.median for time in times] == [side.typical.window.wall_ns for side in sides]


@pytest.mark.parametrize("part", ["interval", "occurrence"])
def test_why_a_part_of_a_trace_takes_another_time_adds_up(part: str) -> None:
    sides = []
    for path in (FAULTY, FIXED):
        trace = open_trace(path)
        one = of_occurrence(trace, "round", 2)
        window = one if part == "occurrence" else Window.between(one.first_ns, one.last_ns)
        sides.append(analyse(trace, window=window))
    found = compare(*sides)
    assert found.why is not None
    assert [found.why.before_ns, found.why.after_ns] == [side.baseline.own_ns for side in sides]
    assert found.why.saved_ns == found.why.before_ns - found.why.after_ns > 0
    assert found.why.reasons[0].saved_ns > found.why.saved_ns / 2


@pytest.mark.parametrize("part", ["interval", "occurrence", "named"])
def test_a_part_of_a_trace_is_no_other_than_itself(part: str) -> None:
    trace = open_trace(FAULTY)
    window = of_occurrence(trace, "round", 3)
    if part != "occurrence":
        window = Window.between(window.first_ns, window.last_ns)
    if part == "named":
        window = replace(window, name="third")
    found = compare(analyse(trace, window=window), analyse(trace, window=window))
    assert found.verdict == "no-change"
    assert found.work.matched > 0
    assert not found.work.only
    assert found.why is not None
    assert found.why.saved_ns == 0
    assert not any(reason.saved_ns for reason in found.why.reasons)


FIRST_STEP = """
    thread 1: range step 1-500 | copy 8MB pinned HtoD 2-6 -> stream 13: 10-200
    launch 7-11 -> stream 7: 20-490
"""
SECOND_STEPS = {
    "pageable": "copy 8MB pageable HtoD 502-800 -> stream 13: 510-799 | launch 807-811 -> stream 7: 810-980",
    "pinned": "copy 8MB pinned HtoD 502-506 -> stream 13: 510-700 | launch 507-511 -> stream 7: 514-684",
}


@pytest.mark.parametrize("part", ["interval", "occurrence"])
def test_what_differs_behind_a_part_is_no_reason_there(part: str, tmp_path: Path) -> None:
    sides = []
    for name, second in SECOND_STEPS.items():
        picture = f"{FIRST_STEP} range step 501-1000 | {second}"
        (tmp_path / name).mkdir()
        trace = trace_of(tmp_path / name, picture, **make.H200)
        one = of_occurrence(trace, "step", 1)
        window = one if part == "occurrence" else Window.between(one.first_ns, one.last_ns)
        sides.append(analyse(trace, window=window))
    whole = compare(*(side.trace for side in sides)).why
    assert whole is not None
    assert whole.reasons
    found = compare(*sides)
    assert found.verdict == "no-change"
    assert found.why is not None
    assert (found.why.saved_ns, found.why.unexplained_ns) == (0, 0)
    assert not any(reason.saved_ns for reason in found.why.reasons)
