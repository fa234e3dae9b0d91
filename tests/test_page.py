"""The report page: what is in it, and that nothing of a trace can become more than text."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html import escape
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

from overlapscope import Window, analyse, audit, open_trace
from overlapscope.cli.main import app
from overlapscope.diagnosis.catalogue import rule
from overlapscope.document.html import colour_class
from overlapscope.document.text import plain_text
from overlapscope.html.frame import colour_rules
from overlapscope.html.packing import Column, Packed, packed, packed_columns
from overlapscope.html.page import report_html
from overlapscope.html.page_bars import PageNames
from overlapscope.html.stacks import stacks
from overlapscope.markup import tag
from overlapscope.report.document import audit_document
from overlapscope.timeline.bars import Style
from overlapscope.timeline.comparison import View
from tests import kineto_maker as make
from tests.conftest import SAMPLES, audited

SAMPLE = SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz"
HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=2'> & \"' \u202e\x07"
_VOID = {"meta", "img", "br", "hr", "link", "input"}


class Reader(HTMLParser):
    """Elements with their attributes, texts of scripts and styles, and whether everything is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": []}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.texts and self.elements[-1][1].get("type") != "application/json":
            self.texts[self.open[-1]].append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def stored(page: str, name: str) -> str:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def page() -> str:
    return report_html(audit(open_trace(SAMPLE), "gemm_copy"))


def test_a_page_says_what_the_audit_does(page: str) -> None:
    found = audit(open_trace(SAMPLE), "gemm_copy")
    for said in (found.verdict, found.conclusion.findings[0].message, *found.conclusion.findings[0].fix.splitlines()):
        assert escape(said) in page
    assert "<h1>gemm_copy-pageable-copy-first-non-blocking-side.json.gz</h1>" in page
    assert str(SAMPLES) not in page, "folders are nobody's business"
    assert "<td>pin</td>" in page
    for title in ("Timeline", "Findings", "Figures", "What the fixes are worth"):
        assert f">{title}</h2>" in page


def test_the_policy_allows_what_is_in_the_page_and_nothing_else(page: str) -> None:
    reader = read(page)
    policies = [found["content"] for name, found in reader.elements if found.get("http-equiv")]
    assert len(policies) == 1
    rules = dict(part.strip().split(" ", 1) for part in (policies[0] or "").split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for kind, name in (("script", "script-src"), ("style", "style-src")):
        hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in reader.texts[kind]]
        assert rules[name].split() == [f"'sha256-{entry}'" for entry in hashes]
    attributes = {name for _, found in reader.elements for name in found}
    assert not {name for name in attributes if name.startswith("on")} | (attributes & {"style", "src", "href"})


def unpacked(found: Packed, number: int = 0) -> dict[str, list[int]]:
    """The columns of a view, read byte by byte as the page's script does."""
    raw, columns, at = gzip.decompress(base64.b64decode(found.data[number])), {}, 0
    for column in found.description["views"][number]["columns"]:
        rows, width = column["rows"], column["bytes"]
        planes = [raw[at + plane * rows : at + (plane + 1) * rows] for plane in range(width)]
        values = [sum(byte << 8 * plane for plane, byte in enumerate(row)) for row in zip(*planes, strict=True)]
        if column["differences"]:
            values = list(accumulate(-(value + 1) // 2 if value % 2 else value // 2 for value in values))
        columns[column["name"]] = values if width else [0] * rows
        at += rows * width
    assert at == len(raw)
    return columns


def names_of(found: Packed) -> list[str]:
    names: list[str] = json.loads(gzip.decompress(base64.b64decode(found.names)))["names"]
    return names


def one_launch(tmp_path: Path) -> Packed:
    """A range, an operator, a call, its kernel and its copy."""
    trace = open_trace(
        make.write(
            tmp_path / "t.json",
            make.annotation("outer", 0, 100),
            make.cpu_op("aten::mm", 5, 20),
            make.call(10, 4, correlation=1),
            make.kernel(20, 50, correlation=1, name="gemm"),
            make.call(16, 4, correlation=2, name="cudaMemcpyAsync"),
            make.copy(30, 60, correlation=2, size=4096),
        )
    )
    return packed([View("measured", analyse(trace), 0, 0, 100_000)])


def test_bars_are_what_the_lanes_hold(tmp_path: Path) -> None:
    """Begin, length, name, style and bytes survive the packing."""
    found = one_launch(tmp_path)
    assert [(lane["group"], lane["title"], lane["bars"]) for lane in found.description["views"][0]["lanes"]] == [
        ("host", "ranges", 1), ("host", "main thread", 2), ("GPU 0", "stream 7", 1), ("GPU 0", "stream 13", 1),
        ("GPU 0", "overlap", 3), ("GPU 0", "why no kernel", 1),
    ]  # fmt: skip
    bars, names, styles = unpacked(found), names_of(found), found.description["styles"]
    columns = (bars[name] for name in ("start", "length", "name", "style", "size"))
    rows = [
        (at, long, names[text], styles[style]["name"], size - 1)
        for at, long, text, style, size in zip(*columns, strict=True)
    ]
    assert rows[:5] == [
        (0, 100_000, "outer", "range", -1), (10_000, 4_000, "cudaLaunchKernel", "call", -1),
        (16_000, 4_000, "cudaMemcpyAsync", "call", -1), (20_000, 50_000, "gemm", "kernel", -1),
        (30_000, 60_000, "HtoD copy", "HtoD pageable", 4096),
    ]  # fmt: skip
    assert [row[:2] + row[3:4] for row in rows[5:8]] == [
        (20_000, 10_000, "kernels only"), (30_000, 40_000, "copy hidden by kernels"), (70_000, 20_000, "copy exposed"),
    ]  # fmt: skip
    assert set(bars["empty"]) == set(bars["more"]) == {0}


def test_bars_know_their_launch_and_its_stack(tmp_path: Path) -> None:
    found = one_launch(tmp_path)
    bars, names = unpacked(found), names_of(found)
    assert [issuer - 1 for issuer in bars["issuer"]] == [-1, -1, -1, 1, 2, -1, -1, -1, -1]
    entry = bars["stack"][3] - 1
    stack = []
    while entry >= 0:
        stack.append((found.description["kinds"][bars["entry_kind"][entry]], names[bars["entry_name"][entry]]))
        entry = bars["entry_outer"][entry] - 1
    assert stack == [("operator", "aten::mm"), ("range", "outer")]
    assert bars["stack"][1] == bars["stack"][3], "a call is where its kernel was launched"
    assert bars["stack"][0] == bars["stack"][5] == 0


@given(
    st.lists(st.integers(0, 2**52), max_size=20),
    st.lists(st.integers(-(2**52), 2**52), max_size=20),
)
def test_columns_survive_their_packing(plain: list[int], changing: list[int]) -> None:
    columns = [Column("plain", np.array(plain, np.int64)), Column("changing", np.array(changing, np.int64), True)]
    described, text = packed_columns(columns)
    found = Packed({"views": [{"columns": described}]}, "", (text,), ())
    assert unpacked(found) == {"plain": plain, "changing": changing}


def test_too_many_bars_are_merged_and_the_page_says_so(tmp_path: Path) -> None:
    """Nothing is lost by it: the number of bars, and the time that they fill in each lane."""
    trace = open_trace(
        make.write(
            tmp_path / "t.json",
            *[make.kernel(at, 3) for at in range(0, 40_000, 10)],
            make.kernel(50_000, 30_000, name="long"),
        )
    )
    views = [View("measured", analyse(trace), 0, 0, 80_000_000)]
    whole, fewer = packed(views), packed(views, most=100)
    assert whole.description["views"][0]["left_out"] == []
    said, _ = fewer.description["views"][0]["left_out"]
    assert said.startswith("Of 12,002 bars, the 11,999 shortest are merged into ")
    bars, full = unpacked(fewer), fewer.description["full"]
    assert len(bars["start"]) <= 100
    assert sum(more + 1 for more in bars["more"]) == sum(
        lane["bars"] for lane in whole.description["views"][0]["lanes"]
    )
    mine = range(fewer.description["views"][0]["lanes"][0]["bars"])
    busy = [bars["length"][row] * (1 - bars["empty"][row] / full) for row in mine]
    assert sum(busy) == pytest.approx(4_000 * 3_000 + 30_000_000, rel=1e-3)
    assert names_of(fewer)[bars["name"][mine[-1]]] == "long", "what is long stays as it is"
    assert bars["more"][mine[-1]] == 0
    assert names_of(fewer)[bars["name"][0]] == "merged bars"


def test_lanes_that_are_left_out_are_said(tmp_path: Path) -> None:
    kernels = [make.kernel(10 * at, 5, stream=100 + at) for at in range(30)]
    nested = [make.annotation(f"depth {at}", at, 100 - 2 * at) for at in range(7)]
    calls = [make.call(20, 10, correlation=900), make.call(22, 5, name="cuLaunchKernel", correlation=901)]
    path = make.write(tmp_path / "t.json", *kernels, *nested, *calls)
    found = packed([View("measured", analyse(path), 0, 0, 300_000)])
    assert found.description["views"][0]["left_out"] == [
        "Not shown: 6 more streams, 3 ranges of other threads or nested deeper, 1 call within other calls."
    ]


def test_too_many_names_are_left_out_and_known_ones_stay() -> None:
    names = PageNames(most=3)
    assert names.of(["a", "b", "a", "c", "b"]).tolist() == [1, 2, 1, 0, 2]
    assert names.left_out
    assert list(names.texts) == ["?", "a", "b"]
    assert not PageNames().left_out


def test_stacks_are_cut_from_the_inside_where_there_are_too_many(tmp_path: Path) -> None:
    ops = [make.cpu_op(f"op {at}", 1 + 10 * at, 8) for at in range(5)]
    calls = [make.call(2 + 10 * at, 1, correlation=at) for at in range(5)]
    trace = open_trace(make.write(tmp_path / "t.json", make.annotation("outer", 0, 100), *ops, *calls))
    rows = np.arange(5)
    whole, cut = stacks(trace, rows), stacks(trace, rows, most=3)
    assert (whole.complete, cut.complete) == (True, False)
    assert len(set(whole.of_call.tolist())) == 5
    assert [trace.names[cut.name_id[entry]] for entry in cut.of_call.tolist()] == ["outer"] * 5


def test_a_finding_carries_its_explanation(page: str) -> None:
    code = audit(open_trace(SAMPLE), "gemm_copy").diagnosis.findings[0].code
    assert f"<summary>Explain {code}: {escape(rule(code).title)}</summary>" in page
    assert "<h4>How it shows in a trace</h4>" in page
    assert "# " not in re.sub(
        r"<pre>.*?</pre>", "", page.split("<summary>Explain", 1)[1].split("</details>", 1)[0], flags=re.DOTALL
    )


def test_rows_of_tables_lead_to_the_timeline(page: str) -> None:
    found = audit(open_trace(SAMPLE), "gemm_copy")
    zero = found.trace.start_ns
    body = re.split(r"<caption>(?:The \d+ most expensive|Copies by cost)[^<]*</caption>", page, maxsplit=1)[1]
    body = body.split("</table>", 1)[0]
    places = [json.loads(text) for text in re.findall(r'data-places="([^"]*)"', body)]
    assert places == [[[copy.start_ns - zero, copy.start_ns + copy.total_ns - zero]] for copy in found.costly]
    copies = page.split("<caption>Copies</caption>", 1)[1].split("</table>", 1)[0]
    ((first, last), *_) = json.loads(re.findall(r'data-places="([^"]*)"', copies)[0])
    assert last - first == max(found.trace.copies.duration_ns)
    blocking = page.split("<caption>Blocking CUDA calls</caption>", 1)[1].split("</table>", 1)[0]
    assert blocking.count("data-places") == blocking.count("<tr>") - 1


def test_before_and_after_are_on_one_scale(page: str) -> None:
    about = json.loads(stored(page, "timeline-about"))
    measured, fixed = about["views"]
    assert measured["label"] == "measured"
    assert fixed["label"] == "with pin"
    lengths = {view["end"] - view["begin"] for view in (measured, fixed)}
    assert lengths == {audit(open_trace(SAMPLE), "gemm_copy").window.wall_ns}


def hostile(tmp_path: Path) -> Path:
    return make.write(
        tmp_path / "hostile<b>.json",
        make.annotation(HOSTILE, 0, 9000),
        make.call(10, 3000, name="cudaMemcpyAsync", correlation=1),
        make.copy(12, 2990, correlation=1, size=1 << 20),
        make.call(3100, 4, correlation=2),
        make.kernel(3200, 5000, correlation=2, name=HOSTILE),
        deviceProperties=[{"id": 0, "name": HOSTILE}],
    )


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    page = report_html(audit(open_trace(hostile(tmp_path))))
    reader = read(page)
    assert not any(name == "img" for name, _ in reader.elements)
    assert len(reader.texts["script"]) == 2, "how bars are painted, and what one does with them"
    assert HOSTILE[:-3] not in page
    assert "\u202e" not in page
    assert "\x07" not in page
    assert escape("<script>window.hacked=1</script>") in page
    assert not re.search(r"[^\w+/=]", stored(page, "timeline-names")), "base64 has nothing that could end the element"


def test_an_attribute_can_hold_anything() -> None:
    element = tag("p", True, title='"><script>', class_="a", data_x=None)
    assert element == '<p title="&quot;&gt;&lt;script&gt;" class="a">True</p>'


def test_the_same_trace_gives_the_same_page(page: str) -> None:
    assert report_html(audit(open_trace(SAMPLE), "gemm_copy")) == page


def test_every_style_has_a_colour_in_both_schemes() -> None:
    rules = colour_rules()
    for style in Style:
        assert f"--{colour_class(style.value)}:#" in rules
        assert f".{colour_class(style.value)}{{fill:" in rules


def test_every_part_of_a_bar_has_a_colour(page: str) -> None:
    rules = colour_rules()
    used = set(re.findall(r'class="(bar-[^"]*)"', page))
    assert colour_class(Style.KERNEL.value) in used
    assert colour_class(Style["OVL001"].value) in used
    assert {name for name in used if f".{name}{{fill:" not in rules} == set()


def test_a_page_and_a_terminal_say_the_same_of_a_window() -> None:
    trace = open_trace(SAMPLE)
    part = audit(trace, Window.between(trace.start_ns, trace.end_ns - 20_000_000))
    said = audit_document(part)
    about = next(line for line in plain_text(said.parts).splitlines() if "torch.profiler" in line)
    assert "  a part of the trace, " in about
    assert escape(about.replace("  ", " · ")) in report_html(part)


def test_any_trace_has_a_page(corpus_trace: Path) -> None:
    read(report_html(audited(corpus_trace)))


def test_a_trace_without_device_work_has_a_page(tmp_path: Path) -> None:
    trace = open_trace(make.write(tmp_path / "t.json", make.cpu_op("alone", 0, 10)))
    assert "Timeline" in report_html(audit(trace))


def test_the_page_opens_in_the_browser_where_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    path = tmp_path / "my report.html"
    arguments = ["report", str(SAMPLE), "-o", str(path), "--within", "gemm_copy"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert opened == []
    assert CliRunner().invoke(app, [*arguments, "--open"]).exit_code == 0
    assert opened == [path.as_uri()]


def test_the_command(tmp_path: Path) -> None:
    runner = CliRunner()
    result = runner.invoke(app, ["report", str(SAMPLE), "-o", str(tmp_path / "r.html"), "--range", "gemm_copy"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    for options in (["-o", "/nowhere/r.html"], ["-o", str(tmp_path / "x.html"), "--range", "nothing"]):
        result = runner.invoke(app, ["report", str(SAMPLE), *options])
        assert result.exit_code == 2
        assert result.stderr.startswith("overlapscope: ")


def test_a_report_repeats_neither_the_page_of_a_rule_nor_zeros() -> None:
    trace = open_trace(SAMPLES / "dataloader_train-pageable-blocking.json.gz")
    page = report_html(audit(trace, "dataloader_train"))
    explained = re.findall(r"<summary>Explain (OVL\d+)", page)
    assert explained
    assert len(explained) == len(set(explained))
    assert not re.search(r"<dd>0 (ns|B)</dd>", page)
    assert not re.search(r"<rect[^>]*><title>", page)
