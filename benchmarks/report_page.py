"""How large a report is, how long it takes to make and to load, and how smoothly its timeline moves.

    python benchmarks/report_page.py TRACE            # needs playwright and Chromium

Frames are counted while the keyboard zooms in, pans and zooms out; software rendering is the worst case.
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

KEYS = ["ArrowUp"] * 8 + ["ArrowRight"] * 20 + ["ArrowLeft"] * 20 + ["ArrowDown"] * 8
COUNT_FRAMES = """() => { window.frames_ms = []; let last = performance.now();
    const next = now => { frames_ms.push(now - last); last = now; requestAnimationFrame(next); };
    requestAnimationFrame(next); }"""


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
        bars = page.evaluate("JSON.parse(document.getElementById('timeline-about').textContent).views[0].bars")
        page.focus("#timeline")
        page.evaluate(COUNT_FRAMES)
        for key in KEYS:
            page.keyboard.press(key)
            page.wait_for_timeout(30)
        frames = page.evaluate("frames_ms")
        browser.close()
        print(f"{bars:,} bars, {path.stat().st_size / 1e6:.1f} MB, loaded in {loaded:.2f} s")
        print(f"frames: median {statistics.median(frames):.0f} ms, longest {max(frames):.0f} ms of {len(frames)}")


if __name__ == "__main__":
    main()
