"""Make the pictures of README.md, the first page, the tutorial and the page about figures.

The report needs a Chromium, and playwright to steer it (extra ``test``). Pictures with letters differ between machines
with other fonts; --check compares the text of the terminal only.

python docs/make_pictures.py [--check]
"""

from __future__ import annotations

import html
import io
import re
import shlex
import shutil
import sys
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from commands import ROOT, printed
from few_colours import reduce_colours
from PIL import Image
from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.text import Text
from typer.testing import CliRunner

import overlapscope
from overlapscope.cli.main import app
from overlapscope.html.page import save_report
from overlapscope.plot.style import DOTS_PER_IN

FOLDER = ROOT / "docs" / "images"
WORKLOAD = "gemm_copy"
SAMPLE = f"sample_traces/{WORKLOAD}-pageable-kernels-first-non-blocking-side.json.gz"
COMMAND = f"overlapscope audit {SAMPLE} --within {WORKLOAD}"
COLUMNS = 96
FIGURE = re.compile(r"^\$ overlapscope ((?:.*\\\n)*.*(?:-o|--figure) )(\w+\.png)$", re.MULTILINE)
"""A command of the tutorial that draws a picture: its arguments but for the last, and the picture's name."""
PANELS = re.compile(r"```python\n(import .*?)```", re.DOTALL)
"""The example of a figure with panels."""
MARK = "sample_traces/pinning_guide-read-early.json.gz"
VIEW = {"width": 1200, "height": 930}
_COLOURS = 64  # of the report's picture


def terminal() -> str:
    """The command and its output, as SVG that loads no fonts."""
    console = Console(file=io.StringIO(), record=True, width=COLUMNS, force_terminal=True, color_system="truecolor")
    console.print("$ " + COMMAND.replace(" --", " \\\n    --") + "\n", highlight=False)
    for line in printed(COMMAND, width=COLUMNS, colours=True):
        console.print(Text.from_ansi(line))
    svg = console.export_svg(title="overlapscope audit", unique_id="audit")
    return re.sub(r"\s*@font-face \{[^}]*\}", "", svg)


def words(svg: str) -> list[str]:
    return html.unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))).split()


def save_screenshot(audit: overlapscope.Audit, path: Path) -> None:
    """The first screen of the report of an audit."""
    with TemporaryDirectory() as folder, sync_playwright() as player:
        page, shot = Path(folder) / "report.html", Path(folder) / "report.png"
        save_report(audit, page)
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = player.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport=VIEW)  # type: ignore[arg-type]
        tab.goto(page.as_uri())
        tab.wait_for_selector("#timeline[data-ready=yes]")
        tab.screenshot(path=shot)
        browser.close()
        Image.open(shot).convert("RGB").quantize(_COLOURS).save(path, optimize=True)


def save_figures() -> None:
    """The figures of the tutorial and of the page about figures, by the commands and the code that they show."""
    with chdir(ROOT):
        drawn = [FOLDER / name for name in ("pageable.png", "panels.png", "mark.png")]
        overlapscope.save_timeline(SAMPLE, drawn[0], within=WORKLOAD, look=overlapscope.Appearance(width="page"))
        (code,) = PANELS.findall((ROOT / "docs" / "howto" / "figures.md").read_text(encoding="utf-8"))
        names: dict[str, Any] = {}
        exec(code.replace('savefig("figure.pdf")', f"savefig({str(drawn[1])!r}, dpi={DOTS_PER_IN})"), names)  # noqa: S102
        overlapscope.save_timeline(MARK, drawn[2])
        for arguments, name in FIGURE.findall((ROOT / "docs" / "tutorial.in.md").read_text(encoding="utf-8")):
            drawn.append(FOLDER / name)
            CliRunner().invoke(
                app, [*shlex.split(arguments.replace("\\\n", "")), str(drawn[-1])], catch_exceptions=False
            )
    for picture in drawn:
        reduce_colours(picture)


def main() -> None:
    target = FOLDER / "audit.svg"
    if "--check" in sys.argv:
        if words(target.read_text(encoding="utf-8")) != words(terminal()):
            sys.exit("docs/images/audit.svg is out of date: run python docs/make_pictures.py")
        return
    target.write_text(terminal(), encoding="utf-8")
    audit = overlapscope.audit(overlapscope.open_trace(ROOT / SAMPLE), WORKLOAD)
    save_figures()
    save_screenshot(audit, FOLDER / "report.png")


if __name__ == "__main__":
    main()
