"""One document, rendered for terminals, as HTML and as Markdown."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given, strategies as st
from markdown_it import MarkdownIt
from rich.console import Console
from typer.testing import CliRunner

from overlapscope.cli.main import app
from overlapscope.document import nodes
from overlapscope.document.html import Surroundings, html_of
from overlapscope.document.markdown import markdown_of
from overlapscope.document.nodes import Medium, Tone, table
from overlapscope.document.text import plain_text, show
from overlapscope.markup import Html, tag
from tests.conftest import SAMPLES
from tests.test_page import HOSTILE, read

PAGEABLE = str(SAMPLES / "gemm_copy-pageable-copy-first-blocking-same.json.gz")
PLACES = nodes.Places(((30, 50), (10, 20)), 7)
TIMES = table("Times", {"name": ["step", "  kernels"], "time (ms)": ["12.5", "3.0"], "note": ["", ""]}, {"name"})
BAR = nodes.Bar(
    "GPU 0 time", (nodes.BarPart("kernels", 6_000_000, "kernel"), nodes.BarPart("idle", 2_000_000, "GPU idle"))
)
FINDING = nodes.Finding(
    rank=1,
    code="OVL001",
    title="OVL001 pageable-copy",
    severity="high",
    facts=("GPU idle 2 ms (25 %)", "severity high"),
    message="4 copies blocked the host.",
    place="step / copy, stream 7",
    worth=("fix: pin saves 2 ms",),
    fix="x = x.pin_memory()\nx.to(device)",
    evidence=nodes.Terms((("host blocked", "2 ms"),)),
    explanation=nodes.Explanation("Explain OVL001", "## Why\n\nBecause of *this*.\n"),
    places=PLACES,
)
DOCUMENT = nodes.Document(
    "run.json",
    (
        nodes.Section("", (nodes.Facts(("torch.profiler", "8 ms")), nodes.Paragraph("All is known.", Tone.ABOUT))),
        nodes.Section("", (nodes.Paragraph("GPU idle.", Tone.HEADLINE), nodes.Paragraph("4 copies.", Tone.VERDICT))),
        nodes.Section("GPU time", (nodes.Bars((BAR,), TIMES),), "time"),
        nodes.Section("Timeline", (nodes.Figure("timeline"),), "when"),
        nodes.Section("Findings", (nodes.Section("", (FINDING,)),), "findings"),
        nodes.Section("More", (nodes.Heading("Answers", 3), nodes.Terms((("when", "known"), ("where", "not known"))))),
        nodes.Section(
            "Figures",
            (nodes.Table(TIMES.title, TIMES.columns, TIMES.rows, (PLACES, nodes.Places((), 0))),),
            folded=True,
        ),
        nodes.Section("", (nodes.Paragraph("on a terminal only"),), medium=Medium.TERMINAL),
        nodes.Section("", (nodes.Paragraph("on pages only"), nodes.Code("one\ntwo")), medium=Medium.PAGE),
        nodes.Section(
            "About the trace",
            (
                nodes.Bullets(
                    (
                        nodes.Paragraph("events were lost", Tone.DAMAGE, "damage"),
                        nodes.Paragraph("clocks differ", Tone.WARNING, "warning"),
                    ),
                    most=1,
                    rest="; --format json lists all",
                ),
            ),
        ),
    ),
    source="/traces/run.json",
)

TERMINAL = """\
/traces/run.json
torch.profiler  8 ms
All is known.

GPU idle.
4 copies.

GPU 0 time (ms), 8 ms in all
  kernels  6   75 %  ████████████████████████████▌
  idle     2   25 %  █████████▌

1. OVL001 pageable-copy  GPU idle 2 ms (25 %), severity high
   4 copies blocked the host.
   at step / copy, stream 7
   fix: pin saves 2 ms
   x = x.pin_memory()
   x.to(device)

Answers
  when   known
  where  not known

Times
           time
name       (ms)  note
step       12.5
  kernels   3.0

on a terminal only

damage: events were lost
... and 1 more; --format json lists all
"""

MARKDOWN = r"""# run.json

torch.profiler · 8 ms

All is known.

**GPU idle.**

4 copies.

## GPU time

**GPU 0 time, 8 ms in all**

| | time | share |
|---|---:|---:|
| kernels | 6 ms | 75 % |
| idle | 2 ms | 25 % |

## Findings

### 1. OVL001 pageable\-copy

GPU idle 2 ms \(25 %\), severity high

4 copies blocked the host.

at step / copy, stream 7

fix\: pin saves 2 ms

```
x = x.pin_memory()
x.to(device)
```

## More

### Answers

- **when:** known
- **where:** not known

<details><summary>Figures</summary>

**Times**

| name | time \(ms\) | note |
|---|---:|---:|
| step | 12.5 | |
| @@@@kernels | 3.0 | |

</details>

on pages only

```
one
two
```

## About the trace

- **damage:** events were lost
- **warning:** clocks differ
""".replace("@", "\N{NO-BREAK SPACE}")

PAGE = """\
<p class="about">torch.profiler · 8 ms</p>
<p class="about">All is known.</p>
<p class="headline">GPU idle.</p>
<p class="verdict">4 copies.</p>
<h2 id="time">GPU time</h2>
<figure class="time">
<figcaption>GPU 0 time, 8 ms in all</figcaption>
<svg viewBox="0 0 1000 22" preserveAspectRatio="none" role="img" aria-label="GPU 0 time, 8 ms in all">
<rect x="0.00" width="750.00" height="22" class="bar-kernel"></rect>
<rect x="750.00" width="250.00" height="22" class="bar-gpu-idle"></rect>
</svg>
<ul class="legend">
<li>
<svg viewBox="0 0 11 8" aria-hidden="true">
<rect width="11" height="8" class="bar-kernel"></rect>
</svg>kernels <b>6 ms</b> 75 %</li>
<li>
<svg viewBox="0 0 11 8" aria-hidden="true">
<rect width="11" height="8" class="bar-gpu-idle"></rect>
</svg>idle <b>2 ms</b> 25 %</li>
</ul>
</figure>
<h2 id="when">Timeline</h2>
<canvas></canvas>
<h2 id="findings">Findings</h2>
<section class="finding high" data-code="OVL001" id="finding-1">
<h3>1. OVL001 pageable-copy</h3>
<p class="about">GPU idle 2 ms (25 %); severity high</p>
<p>4 copies blocked the host.</p>
<button type="button" data-places="[[20, 40], [0, 10]]" data-counts="yes">\
Show on the timeline (7 places, the 2 longest first)</button>
<dl>
<dt>host blocked</dt>
<dd>2 ms</dd>
</dl>
<p>fix: pin saves 2 ms</p>
<pre>
<code>x = x.pin_memory()
x.to(device)</code>
</pre>
<details class="explain">
<summary>Explain OVL001</summary>
<h4>Why</h4>
<p>Because of <em>this</em>.</p>
</details>
</section>
<h2>More</h2>
<h3>Answers</h3>
<dl>
<dt>when</dt>
<dd>known</dd>
<dt>where</dt>
<dd>not known</dd>
</dl>
<details>
<summary>Figures</summary>
<div class="scroll">
<table>
<caption>Times</caption>
<thead>
<tr>
<td class="lead"></td>
<th scope="col">name</th>
<th class="number" scope="col">time (ms)</th>
</tr>
</thead>
<tbody>
<tr>
<td class="lead">
<button type="button" data-places="[[20, 40], [0, 10]]" title="Show on the timeline, the longest first" \
aria-label="Show on the timeline, the longest first">▸</button></td>
<td>step</td>
<td class="number">12.5</td>
</tr>
<tr>
<td class="lead">
<button type="button" disabled="" data-places="[]" title="Show on the timeline, the longest first" \
aria-label="Show on the timeline, the longest first">▸</button></td>
<td>\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}kernels</td>
<td class="number">3.0</td>
</tr>
</tbody>
</table>
</div>
</details>
<p>on pages only</p>
<pre>
<code>one
two</code>
</pre>
<h2>About the trace</h2>
<ul class="warnings">
<li>damage: events were lost</li>
<li>warning: clocks differ</li>
</ul>
"""


def printed(document: nodes.Document, width: int) -> str:
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        show(document, console)
    return capture.get()


def lines_of(html: str) -> str:
    """HTML with a line break between elements."""
    return re.sub(r">(?=<(?!/(?:li|h|p|td|th|dt|dd|summary|button|figcaption|rect|code|canvas|em|b)\b))", ">\n", html)


def test_a_terminal_shows_a_document() -> None:
    shown = "\n".join(line.rstrip() for line in printed(DOCUMENT, 60).splitlines())
    assert shown + "\n" == TERMINAL + "\n"


def test_parts_are_text_without_the_path_of_the_document() -> None:
    assert plain_text(DOCUMENT.parts, 60) == TERMINAL.partition("\n")[2]


def test_markdown_shows_a_document_with_pages_left_out() -> None:
    assert markdown_of(DOCUMENT) == MARKDOWN


def test_a_page_shows_a_document_with_its_figures_and_its_places() -> None:
    around = Surroundings({"timeline": tag("canvas")}, zero_ns=10)
    page = html_of(DOCUMENT.parts, around)
    read(page)
    assert lines_of(page).replace("\n\n", "\n") + "\n" == PAGE


def test_a_page_without_timeline_and_styles_has_no_buttons_and_tables_for_bars() -> None:
    page = html_of(DOCUMENT.parts, Surroundings(styled=False))
    read(page)
    assert "<button" not in page
    assert "<svg" not in page
    assert "<td>kernels</td>" in page
    assert "<strong>GPU idle.</strong>" in page
    assert "<p>when known; where not known</p>" in page


def test_many_bars_are_one_table_on_a_terminal() -> None:
    three = nodes.Document("", (nodes.Section("", (nodes.Bars((BAR,) * 3, TIMES),)),))
    assert "█" not in printed(three, 60)
    assert "12.5" in printed(three, 60)
    assert html_of(three.parts).count("<svg viewBox='0 0 1000".replace("'", '"')) == 3


def test_lines_after_the_first_hang() -> None:
    parts = [
        nodes.Paragraph("a sentence of many words"),
        nodes.Paragraph("more of the same", Tone.DETAIL),
        nodes.Paragraph("no clocks were found", Tone.PROBLEM),
        nodes.Terms((("term", "what it is"),), least=6),
    ]
    assert plain_text(parts, 14, hang=2).splitlines() == [
        "a sentence of",
        "  many words",
        "  more of the",
        "    same",
        "! no clocks",
        "    were found",
        "  term    what",
        "          it",
        "          is",
    ]
    assert plain_text(parts).splitlines()[1:] == [
        "  more of the same",
        "! no clocks were found",
        "  term    what it is",
    ]


def test_a_line_is_cut_and_not_broken() -> None:
    assert plain_text([nodes.Paragraph("abc def ghi", Tone.LINE)], 8) == "abc def…\n"


def test_a_column_keeps_its_least_width() -> None:
    wide = nodes.Table("", (nodes.Column("rank", text=True, least=8), nodes.Column("late", least=6)), (("1", "2"),))
    assert plain_text([wide]) == "rank        late\n1              2\n"


def test_sections_are_chosen_by_their_keys() -> None:
    assert [part.key for part in DOCUMENT.having(["findings", "nowhere", "time"]).parts] == ["findings", "time"]


def hostile(text: str) -> list[nodes.Node]:
    """Nodes of all kinds with the same text everywhere."""
    cells = table(text, {text: [text]}, {text})
    bar = nodes.Bar(text, (nodes.BarPart(text, 5, text),))
    line = nodes.Paragraph(text, Tone.WARNING, text)
    finding = nodes.Finding(1, text, text, "high", (text,), text, text, (text,), text, nodes.Terms(((text, text),)))
    return [
        nodes.Section(
            text,
            (nodes.Heading(text), nodes.Paragraph(text), nodes.Facts((text,)), nodes.Bullets((line,)), finding),
            text,
        ),
        nodes.Section(text, (cells, nodes.Bars((bar,), cells), nodes.Terms(((text, text),)), bar), folded=True),
        nodes.Code(text),
        nodes.Figure("", text),
    ]


def test_hostile_texts_stay_text_everywhere() -> None:
    parts = hostile(HOSTILE)
    page = html_of(parts, Surroundings(zero_ns=0))
    assert not {name for name, _ in read(page).elements} & {"script", "img"}
    said = markdown_of(nodes.Document(HOSTILE, tuple(parts)))
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(said)
    assert not {name for name, _ in read(rendered).elements} & {"script", "img", "a"}
    for text in (page, said, plain_text(parts, 80)):
        assert "\x07" not in text
        assert "\u202e" not in text


@given(st.text(max_size=30))
def test_any_text_is_shown_by_all(text: str) -> None:
    parts = hostile(text)
    read(html_of(parts, Surroundings(zero_ns=0)))
    markdown_of(parts)
    plain_text(parts, 40)
    plain_text(parts, hang=2)


def test_figures_are_html_of_the_page() -> None:
    drawn = html_of([nodes.Figure("timeline", "a < b")], Surroundings({"timeline": Html("<canvas></canvas>")}))
    assert drawn == '<canvas></canvas><p class="about">a &lt; b</p>'
    assert html_of([nodes.Figure("timeline")]) == ""


def test_colours_go_to_terminals_that_have_them() -> None:
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system="standard")
    with console.capture() as capture:
        show(DOCUMENT, console)
    assert "\x1b[1;31mdamage: " in capture.get()
    assert "\x1b[1;31m1. OVL001 pageable-copy" in capture.get()


@pytest.mark.parametrize(
    ("arguments", "first", "within"),
    [
        (
            ["audit", PAGEABLE],
            r"# gemm\_copy\-pageable\-copy\-first",
            "### 1. OVL001",
        ),
        (["compare", PAGEABLE, PAGEABLE], "# Before and after", "| difference |"),
        (["what-if", PAGEABLE, "--change", "pin"], r"**pin\:", "critical path"),
    ],
)
def test_results_are_markdown_where_that_is_asked_for(arguments: list[str], first: str, within: str) -> None:
    result = CliRunner().invoke(app, [*arguments, "--format", "markdown", "--no-cache", "-q"])
    assert result.output.startswith(first), result.output
    assert within in result.output
