"""How large a report is, how long it takes to make and to load, and how long its timeline takes to paint.

    python benchmarks/report_page.py TRACE            # needs playwright and Chromium

A frame is painted again and again: of the whole trace, and of ever smaller parts of it. Software rendering is the worst
case.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from overlapscope import audit, open_trace
from overlapscope.html.page import save_report

ZOOMS = 12
PAINT = """() => Array.from({ length: 20 }, () => {
    const begun = performance.now();
    overlapscope().redraw();
    return performance.now() - begun;
})"""
SEARCH = """() => {
    const begun = performance.now(), input = document.getElementById('sought');
    input.value = 'cuda';
    input.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
    overlapscope().redraw();
    return performance.now() - begun;
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as player:
        path = Path(folder) / "report.html"
        begin = time.perf_counter()
        found = audit(open_trace(options.trace))
        audited = time.perf_counter()
        save_report(found, path)
        print(f"audited in {audited - begin:.1f} s, page made in {time.perf_counter() - audited:.1f} s")
        browser = player.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        begin = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector("#timeline[data-ready=yes]")
        loaded = time.perf_counter() - begin
        bars = page.evaluate("overlapscope().bars")
        print(f"{bars:,} bars, {path.stat().st_size / 1e6:.1f} MB, loaded in {loaded:.2f} s")
        page.focus("#timeline")
        for zoom in range(ZOOMS):
            frames = page.evaluate(PAINT)
            part = f"1/{2**zoom} of the trace" if zoom else "the whole trace"
            print(f"{part}: median {statistics.median(frames):.1f} ms, longest {max(frames):.1f} ms")
            page.keyboard.press("ArrowUp")
        print(f"search, first found bar and frame: {page.evaluate(SEARCH):.0f} ms")
        browser.close()


if __name__ == "__main__":
    main()
