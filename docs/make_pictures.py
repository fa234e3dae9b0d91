"""Make the pictures of README.md and of the first page: a terminal, a timeline and a report.

The report needs a Chromium, and playwright to steer it (extra ``test``). Pictures with letters differ between machines
with other fonts; --check compares the text of the terminal only.

python docs/make_pictures.py [--check]
"""

from __future__ import annotations

import html
import io
import re
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from commands import ROOT, printed, shortened
from few_colours import reduce_colours
from PIL import Image
from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.text import Text

import overlapscope
from overlapscope.html.page import save_report

FOLDER = ROOT / "docs" / "images"
WORKLOAD = "gemm_copy"
SAMPLE = f"sample_traces/{WORKLOAD}-pageable-kernels-first-non-blocking-side.json.gz"
COMMAND = f"overlapscope audit {SAMPLE} --within {WORKLOAD}"
SHOWN = ["sample_traces", "GPU idle", "GPU 0 time", "1. OVL001", "Fixes one after"]
COLUMNS = 96
VIEW = {"width": 1200, "height": 930}
_COLOURS = 64  # of the report's picture


def terminal() -> str:
    """The command and the first parts of its output, as SVG that loads no fonts."""
    console = Console(file=io.StringIO(), record=True, width=COLUMNS, force_terminal=True, color_system="truecolor")
    console.print("$ " + COMMAND.replace(" --", " \\\n    --") + "\n", highlight=False)
    for line in shortened(printed(COMMAND, width=COLUMNS, colours=True), SHOWN):
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


def main() -> None:
    target = FOLDER / "audit.svg"
    if "--check" in sys.argv:
        if words(target.read_text(encoding="utf-8")) != words(terminal()):
            sys.exit("docs/images/audit.svg is out of date: run python docs/make_pictures.py")
        return
    target.write_text(terminal(), encoding="utf-8")
    audit = overlapscope.audit(overlapscope.open_trace(ROOT / SAMPLE), WORKLOAD)
    pageable = FOLDER / "pageable.png"
    overlapscope.save_timeline(audit.trace, pageable, within=WORKLOAD, look=overlapscope.Appearance(width="page"))
    reduce_colours(pageable)
    save_screenshot(audit, FOLDER / "report.png")


if __name__ == "__main__":
    main()
