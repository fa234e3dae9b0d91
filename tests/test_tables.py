"""Tables of copies, gaps, findings and ranges: their figures, and the same names everywhere."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from overlapscope import analyse, audit, copy_table, finding_table, gap_table, open_trace, range_table, stream_table
from overlapscope.analysis.window import between_ms
from overlapscope.cli.main import app
from overlapscope.export.tables import csv_texts
from overlapscope.measure.spans import covered
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID
from overlapscope.model.trace import Trace
from overlapscope.report.tables import tables
from tests import kineto_maker as make
from tests.conftest import SAMPLES
from tests.notation import trace_of
from tests.opened import analysis_of, audit_of, swept

SAMPLE = SAMPLES / "dataloader_train-pageable-blocking.json.gz"


@pytest.fixture(scope="module")
def sample() -> Trace:
    return open_trace(SAMPLE)


def two_copies(tmp_path: Path) -> Trace:
    """A pageable copy under a kernel for 40 of its 60 us, whose call blocks; and a pinned one that ends all."""
    text = """
        thread 1: range step 0-400 | range copy 14-80 | launch 10-14 -> stream 7: 20-60
                  op aten::copy_ 14-79 | copy 4KiB pageable HtoD 15-75 -> stream 13: 17-77
                  launch 81-85 -> stream 7: 90-250 | copy 8KiB pinned DtoH 86-90 -> stream 13: 270-300
    """
    return trace_of(tmp_path, text)


def test_what_a_copy_cost_and_where_it_is_from(tmp_path: Path) -> None:
    table = copy_table(two_copies(tmp_path)).to_pandas()
    first, second = (row for _, row in table.iterrows())
    times = ("start_ns", "duration_ns", "hidden_ns", "exposed_ns", "blocked_ns")
    assert [first[name] for name in times] == [17_000, 60_000, 40_000, 20_000, 56_000]
    assert [second[name] for name in times] == [270_000, 30_000, 0, 30_000, 0]
    assert (first["direction"], first["memory"], first["size_bytes"]) == ("HtoD", "pageable", 4096)
    assert (first["range"], first["op"], first["api"]) == ("step / copy", "aten::copy_", "cudaMemcpyAsync")
    assert (first["code"], first["cause"]) == ("OVL001", "copy_call")
    assert second["range"] == "step"


def test_idle_time_of_copies_is_that_of_their_gaps(sample: Trace) -> None:
    analysis = analyse(sample)
    found = analysis.diagnosis
    copies, gaps = analysis.copies.to_pandas(), analysis.gaps.to_pandas()
    assert gaps["duration_ns"].sum() == found.idle_ns
    assert gaps["start_ns"].is_monotonic_increasing
    of_copies = gaps.dropna(subset=["copy_row"]).groupby("copy_row")["duration_ns"].sum()
    assert of_copies.sum() == copies["no_kernel_ns"].sum() > 0
    assert all(copies["no_kernel_ns"][int(row)] == idle for row, idle in of_copies.items())
    for finding in found.findings:
        idle_ns = gaps["duration_ns"][gaps["code"] == finding.code].sum()
        assert idle_ns == finding.idle_ns or (finding.kind is not None and idle_ns > finding.idle_ns)


def test_a_window_selects_copies_and_gaps(sample: Trace) -> None:
    first = int(sample.copies.start_ns[5])
    analysis = analyse(sample, Window.between(first, int(sample.copies.end_ns[9])))
    assert analysis.copies.row.tolist() == [5, 6, 7, 8, 9]
    assert analysis.gaps.start_ns.min() >= first


def test_ranges_of_a_trace_and_of_a_window(sample: Trace) -> None:
    table = range_table(sample).to_pandas().set_index("name")
    assert table.loc["step", "occurrences"] == 10
    assert table.loc["step", "copy_busy_ns"] <= table.loc["dataloader_train", "copy_busy_ns"]
    inside = range_table(sample, "step").to_pandas()
    assert set(inside["name"]) < set(table.index)


def test_ranges_on_a_terminal_say_which_times_are_medians_and_which_totals() -> None:
    text = CliRunner().invoke(app, ["ranges", str(SAMPLES / "dataloader_train-pinned-non-blocking.json.gz")]).stdout
    words = set(re.split(r"\W+", text))
    assert {"median", "total", "host", "after", "blocked", "wall", "kernel", "copy", "busy"} <= words


def test_names_are_the_same_in_pandas_arrow_and_csv(sample: Trace) -> None:
    analysis = analyse(sample)
    for table in (analysis.copies, analysis.gaps, analysis.findings, analysis.ranges, analysis.streams):
        frame, arrow = table.to_pandas(), table.to_arrow()
        read = pd.read_csv(io.StringIO("".join(csv_texts(arrow))))
        assert list(frame) == arrow.schema.names == list(read) == list(table.to_dict())
        assert len(read) == len(table) > 0
    assert list(analysis.findings.to_pandas()) == list(analysis.diagnosis.to_pandas())


def test_a_trace_without_device_work_has_empty_tables(tmp_path: Path) -> None:
    analysis = analyse(trace_of(tmp_path, "thread 1: range step 0-10 | cudaMalloc 1-2"))
    assert (len(analysis.copies), len(analysis.gaps), len(analysis.findings)) == (0, 0, 0)
    assert analysis.ranges.to_pandas()["name"].tolist() == ["step"]


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("=HYPERLINK('x')", "'=HYPERLINK('x')"),
        ("\n=1", "'\n=1"),
        ("\N{FULLWIDTH EQUALS SIGN}1", "'\N{FULLWIDTH EQUALS SIGN}1"),
        ("a\x1b]0;b\x9bc\td=1", "a?]0;b?c\td=1"),
    ],
)
def test_csv_holds_nothing_that_a_spreadsheet_or_a_terminal_runs(tmp_path: Path, name: str, cell: str) -> None:
    trace = trace_of(tmp_path, make.annotation(name, 0, 90), "thread 1: launch 1-5 -> stream 7: 10-20")
    rows = csv.reader(io.StringIO("".join(csv_texts(range_table(trace).to_arrow()))))
    assert cell in [each for row in rows for each in row]


def test_starts_on_a_terminal_count_from_the_begin_of_the_trace(tmp_path: Path) -> None:
    two_copies(tmp_path)
    shown = CliRunner().invoke(app, ["copies", str(tmp_path / "t.json")], env={"COLUMNS": "200"}).stdout
    starts = [line.split()[0] for line in shown.splitlines() if "HtoD" in line or "DtoH" in line]
    assert sorted(map(float, starts)) == [17, 270], "in us, from the begin of the range around them"


def test_tables_take_a_path_a_trace_or_an_analysis() -> None:
    sources = (SAMPLE, open_trace(SAMPLE), analyse(SAMPLE))
    for table in (copy_table, gap_table, finding_table, range_table, stream_table):
        first, *others = [table(source).to_dict() for source in sources]
        assert all(other == first for other in others)
        with pytest.raises(TypeError, match="expected an Analysis, an opened trace or its path, not list"):
            table([])  # type: ignore[operator]


def test_streams_by_kind_with_what_ran_beside_kernels_of_others(tmp_path: Path) -> None:
    """Stream 7: a kernel at 0 to 100; stream 9: one at 50 to 150 and a copy to the GPU at 140 to 200."""
    events = [
        make.annotation("part", 60, 85),
        make.kernel(0, 100, stream=7),
        make.kernel(50, 100, stream=9),
        make.copy(160, 40, stream=9),
        make.copy(90, 40, stream=13),
    ]
    trace = open_trace(make.write(tmp_path / "t.json", *events))
    found = stream_table(trace).to_pandas()
    numbers = found[["stream", "kind", "count", "busy_ns", "overlapped_ns", "exposed_ns"]].to_numpy().tolist()
    assert numbers == [
        [7, "kernel", 1, 100_000, 50_000, 50_000],
        [9, "kernel", 1, 100_000, 50_000, 50_000],
        [9, "HtoD", 1, 40_000, 0, 40_000],
        [13, "HtoD", 1, 40_000, 40_000, 0],
    ]
    inside = stream_table(trace, "part").to_pandas()
    assert inside["busy_ns"].tolist() == [40_000, 85_000, 40_000]
    assert inside["overlapped_ns"].tolist() == [40_000, 40_000, 40_000]


@pytest.mark.parametrize("path", swept(sorted(SAMPLES.glob("*.json.gz"))))
def test_idle_is_no_work_at_all_wherever_it_stands(path: Path) -> None:
    """Without a kernel a GPU is idle or only copying: the longer time has a name of its own."""
    found, rows = audit_of(path), finding_table(analysis_of(path)).to_dict()
    for no_kernel_ns, idle_ns, entry in zip(
        rows["no_kernel_ns"], rows["idle_ns"], found.diagnosis.findings, strict=True
    ):
        said = entry.to_dict()
        assert (said["no_kernel_ns"], said["idle_ns"]) == (no_kernel_ns, idle_ns)
        key = (entry.where.process, entry.where.device)
        spans = [each.activity.idle for each in found.devices if (each.key.process, each.key.device) == key]
        device = next(each for each in found.diagnosis.devices if entry.is_about(each.key))
        idle = device.idle.take(np.array(entry.idle_rows, np.int64))
        assert idle_ns == covered(idle.start_ns, idle.end_ns, spans[0]).sum() <= no_kernel_ns


@pytest.mark.parametrize("within", [None, "step", Window.between(0, 2**62)])
def test_every_table_has_one_clock(sample: Trace, within: str | Window | None) -> None:
    """Starts count from the begin of the trace, as those that --from and --to take."""
    found = audit(analyse(sample, within), plan=False)
    (costly,) = (each for each in tables(found) if "expensive" in each.title)
    place = [column.heading for column in costly.columns].index("start (ms)")
    printed = [float(row[place]) for row in costly.rows]
    assert printed == pytest.approx([(copy.start_ns - sample.start_ns) / 1e6 for copy in found.costly], abs=0.06)
    window = between_ms(sample, printed[0] - 0.1, printed[0] + 0.1)
    assert window.touches(*(np.array([value]) for value in (NO_ID, found.costly[0].start_ns, found.costly[0].end_ns)))
