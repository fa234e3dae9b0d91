"""The report page: what is in it, and that nothing of a trace can become more than text."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from overlapscope import audit, open_trace
from overlapscope.cli.main import app
from overlapscope.html.bars import packed
from overlapscope.html.colours import colour_of, colour_rules
from overlapscope.html.page import report_html
from overlapscope.markup import tag
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
    for said in (found.verdict, found.diagnosis.findings[0].message, *found.diagnosis.findings[0].fix.splitlines()):
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
    for kind, rule in (("script", "script-src"), ("style", "style-src")):
        hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in reader.texts[kind]]
        assert rules[rule].split() == [f"'sha256-{entry}'" for entry in hashes]
    attributes = {name for _, found in reader.elements for name in found}
    assert not {name for name in attributes if name.startswith("on")} | (attributes & {"style", "src", "href"})


def test_bars_are_what_the_lanes_hold(tmp_path: Path) -> None:
    """A call and its kernel, and a range around them: begin, length, name and style survive the packing."""
    trace = open_trace(
        make.write(
            tmp_path / "t.json",
            make.annotation("outer", 0, 100),
            make.call(10, 4, correlation=1),
            make.kernel(20, 50, correlation=1, name="gemm"),
        )
    )
    found = packed([View("measured", trace, 0, 0, 100_000)])
    assert [lane["title"] for lane in found.about["views"][0]["lanes"]] == [
        "ranges", "main thread", "GPU 0 stream 7", "GPU 0 overlap",
    ]  # fmt: skip
    raw = gzip.decompress(base64.b64decode(found.data[0]))
    count = found.about["views"][0]["bars"]
    assert count == 4
    start = np.frombuffer(raw, "<f8", count)
    length = np.frombuffer(raw, "<f4", count, 8 * count)
    name = np.frombuffer(raw, "<u4", count, 12 * count)
    style = np.frombuffer(raw, "u1", count, 16 * count)
    names, styles = found.about["names"], found.about["styles"]
    rows = [
        (at, long, names[text], styles[kind]["name"])
        for at, long, text, kind in zip(*(column.tolist() for column in (start, length, name, style)), strict=True)
    ]
    assert rows == [
        (0, 100_000, "outer", "range"), (10_000, 4_000, "cudaLaunchKernel", "call"),
        (20_000, 50_000, "gemm", "kernel"), (20_000, 50_000, "kernels only", "kernels only"),
    ]  # fmt: skip
    assert found.styles == (Style.RANGE, Style.CALL, Style.KERNEL, Style.KERNELS_ONLY)


def test_before_and_after_are_on_one_scale(page: str) -> None:
    about = json.loads(stored(page, "timeline-about"))
    measured, fixed = about["views"]
    assert measured["label"] == "measured"
    assert fixed["label"] == "with pin"
    assert measured["end"] == fixed["end"] == audit(open_trace(SAMPLE), "gemm_copy").window.wall_ns


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
    assert len(reader.texts["script"]) == 2, "uPlot's and ours"
    assert HOSTILE[:-3] not in page
    assert "\u202e" not in page
    assert "\x07" not in page
    assert escape("<script>window.hacked=1</script>") in page
    about = json.loads(stored(page, "timeline-about"))
    assert any(text.startswith("</script>") for text in about["names"])


def test_an_attribute_can_hold_anything() -> None:
    element = tag("p", True, title='"><script>', class_="a", data_x=None)
    assert element == '<p title="&quot;&gt;&lt;script&gt;" class="a">True</p>'


def test_the_same_trace_gives_the_same_page(page: str) -> None:
    assert report_html(audit(open_trace(SAMPLE), "gemm_copy")) == page


def test_every_style_has_a_colour_in_both_schemes() -> None:
    rules = colour_rules()
    for style in Style:
        assert f"--{colour_of(style)}:#" in rules
        assert f".{colour_of(style)}{{fill:" in rules


def test_any_trace_has_a_page(corpus_trace: Path) -> None:
    read(report_html(audited(corpus_trace)))


def test_a_trace_without_device_work_has_a_page(tmp_path: Path) -> None:
    trace = open_trace(make.write(tmp_path / "t.json", make.cpu_op("alone", 0, 10)))
    assert "Timeline" in report_html(audit(trace))


def test_the_command(tmp_path: Path) -> None:
    runner = CliRunner()
    result = runner.invoke(app, ["report", str(SAMPLE), "-o", str(tmp_path / "r.html"), "--range", "gemm_copy"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    for options in (["-o", "/nowhere/r.html"], ["-o", str(tmp_path / "x.html"), "--range", "nothing"]):
        result = runner.invoke(app, ["report", str(SAMPLE), *options])
        assert result.exit_code == 2
        assert result.stderr.startswith("overlapscope: ")
