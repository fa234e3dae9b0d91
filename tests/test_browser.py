"""The report in a real browser: it loads, moves, keeps to itself, and hostile names do nothing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from overlapscope import audit, open_trace
from overlapscope.html.page import save_report
from overlapscope.timeline.bars import Lane, Style
from overlapscope.timeline.lanes import lanes
from overlapscope.timeline.pixels import for_pixels
from overlapscope.timeline.view import work_window
from tests import kineto_maker as make
from tests.conftest import SAMPLES
from tests.test_page import hostile

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
REQUIRED = os.environ.get("OVERLAPSCOPE_BROWSER_REQUIRED") == "1"
QUIET = ["--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking"]
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None and not REQUIRED, reason="no Chromium here")]

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None, "no Chromium, and OVERLAPSCOPE_BROWSER_REQUIRED asks for one"
    with sync_playwright() as player:
        found = player.chromium.launch(executable_path=CHROMIUM, headless=True, args=QUIET)
        yield found
        found.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    save_report(audit(open_trace(SAMPLES / "moe_prefetch-pageable.json.gz"), "moe_prefetch"), path)
    return path


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Open a page without a network; at the end it must have asked for nothing and reported no error."""
    troubles: list[str] = []
    contexts = []

    def open_page(path: Path, **settings: Any) -> Page:
        context = browser.new_context(offline=True, viewport={"width": 1200, "height": 800}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: troubles.append(request.url) if request.url != path.as_uri() else None)
        page.on("dialog", lambda dialog: troubles.append(dialog.message))
        page.goto(path.as_uri())
        page.wait_for_selector("#timeline[data-ready=yes]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


def view(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate("overlapscope()")
    return found


def colours(page: Page) -> int:
    """How many colours are on the timeline."""
    found: int = page.evaluate(
        """() => { const canvas = document.querySelector('#timeline canvas');
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
        for (let at = 0; at < data.length; at += 4) seen.add(data[at] << 16 | data[at + 1] << 8 | data[at + 2]);
        return seen.size; }"""
    )
    return found


def test_it_loads_and_shows_everything(opened: Open, report: Path) -> None:
    page = opened(report)
    shown = view(page)
    assert shown["first"] <= shown["begin"] == 0
    assert shown["last"] >= shown["end"]
    assert colours(page) > 8
    assert page.locator(".finding").count() >= 2


def test_a_finding_s_button_goes_through_its_places(opened: Open, report: Path) -> None:
    page = opened(report)
    button = page.locator("#finding-1 button")
    places = json.loads(button.get_attribute("data-places") or "")
    assert len(places) == 20
    lengths = [last - first for first, last in places]
    assert lengths == sorted(lengths, reverse=True)
    assert button.inner_text() == "Show on the timeline (96 places, the 20 longest first)"
    for number, (first, last) in enumerate(places[:3], 1):
        button.click()
        assert button.inner_text() == f"Shown: {number} of 20, by length. Next"
        shown = view(page)
        assert shown["first"] < first < last < shown["last"]
        assert shown["last"] - shown["first"] < 3 * (last - first)
    assert page.evaluate("document.activeElement.id") == "timeline"
    button.focus()
    page.keyboard.press("Enter")
    assert button.inner_text() == "Shown: 4 of 20, by length. Next"
    assert page.evaluate("document.activeElement.tagName") == "BUTTON", "Enter again goes on"


def test_it_works_with_the_keyboard(opened: Open, report: Path) -> None:
    page = opened(report)
    page.focus("#timeline")
    whole = view(page)
    for key in ("ArrowUp", "+"):
        before = view(page)
        page.keyboard.press(key)
        after = view(page)
        assert after["last"] - after["first"] < 0.6 * (before["last"] - before["first"])
    before = view(page)
    page.keyboard.press("ArrowRight")
    assert view(page)["first"] > before["first"]
    page.keyboard.press("ArrowLeft")
    assert view(page)["first"] == pytest.approx(before["first"])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("0")
    assert view(page) == whole
    assert "measured" in page.inner_text("#said")


def test_wheel_drag_and_hover(opened: Open, report: Path) -> None:
    page = opened(report)
    box = page.locator("#timeline .u-over").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.6
    page.mouse.move(x, y)
    page.mouse.wheel(0, -600)
    page.wait_for_function("overlapscope().last < overlapscope().end")
    zoomed = view(page)
    page.mouse.down()
    page.mouse.move(x - 200, y)
    page.mouse.up()
    assert view(page)["first"] > zoomed["first"]
    page.keyboard.press("0")
    page.mouse.move(box["x"] + 60, box["y"] + box["height"] * 4.5 / 8)
    assert "cudaMemcpyAsync" in page.inner_text("#tip")
    assert "blocked by a copy call" in page.inner_text("#tip")


def test_the_simulated_trace_can_be_shown_instead(opened: Open, report: Path) -> None:
    page = opened(report)
    buttons = page.locator("button[data-view]")
    assert buttons.count() == 2
    buttons.nth(1).click()
    assert view(page)["label"].startswith("with pin")
    assert buttons.nth(1).get_attribute("aria-pressed") == "true"
    page.locator("#finding-1 button").click()
    assert view(page)["label"] == "measured", "a finding is in what was measured"


def test_hostile_names_do_nothing(opened: Open, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    save_report(audit(open_trace(hostile(tmp_path))), path)
    page = opened(path)
    assert page.evaluate("window.hacked") is None
    box = page.locator("#timeline .u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 30, box["y"] + 8)
    assert page.inner_text("#tip").startswith("</script><script>")
    assert page.locator("img").count() == 0


def test_dark_mode_and_print(opened: Open, report: Path) -> None:
    light, dark = (opened(report, color_scheme=scheme) for scheme in ("light", "dark"))
    backs = [page.evaluate("getComputedStyle(document.body).backgroundColor") for page in (light, dark)]
    assert backs[0] == "rgb(255, 255, 255)"
    assert backs[1] != backs[0]
    assert colours(dark) > 8
    assert len(light.pdf(format="A4")) > 20_000
    dark.emulate_media(media="print")
    assert not dark.locator("#finding-1 button").is_visible()
    assert dark.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_a_finger_that_slips_off_does_not_go_on_panning(opened: Open, report: Path) -> None:
    page = opened(report)
    page.keyboard.press("Tab")
    page.focus("#timeline")
    page.keyboard.press("+")
    box = page.locator("#timeline .u-over").bounding_box()
    assert box is not None
    x, y = box["x"] + 200, box["y"] + 20
    before = view(page)
    page.mouse.move(x, y)
    page.mouse.down(button="right")
    page.mouse.move(x + 100, y)
    page.mouse.up(button="right")
    assert view(page) == before, "only the main button pans"
    page.mouse.down()
    page.evaluate("document.querySelector('#timeline .u-over').dispatchEvent(new PointerEvent('lostpointercapture'))")
    page.mouse.move(x + 150, y)
    assert view(page) == before


def short_work(tmp_path: Path) -> Path:
    """Streams of short work, every 0.1 ms of 100: sparse copies; dense kernels; kernels, copies and collectives."""
    every = range(0, 100_000, 100)
    return make.write(
        tmp_path / "t.json",
        *[make.copy(at, 1, stream=20) for at in every],
        *[make.kernel(at, 90, stream=21) for at in every],
        *[make.kernel(at, 9, stream=22) for at in every],
        *[make.copy(at + 20, 2, stream=22, kinds="DtoH (Device -> Pinned)") for at in every],
        *[make.kernel(at + 40, 1, stream=22, name="ncclDevKernel") for at in every],
    )


SHARE_OF_LANE = """([row, rows, style]) => {
    const canvas = document.querySelector('#timeline canvas'), over = document.querySelector('#timeline .u-over');
    const box = over.getBoundingClientRect(), corner = canvas.getBoundingClientRect();
    const css = getComputedStyle(document.documentElement).getPropertyValue(style).trim().slice(1);
    const wanted = [0, 2, 4].map(at => parseInt(css.slice(at, at + 2), 16));
    const left = Math.round(box.left - corner.left + box.width * 0.53), height = box.height / rows;
    const top = Math.round(box.top - corner.top + row * height);
    const data = canvas.getContext('2d').getImageData(left, top, 1, Math.round(height)).data;
    let same = 0;
    for (let at = 0; at < data.length; at += 4)
        same += wanted.every((value, part) => Math.abs(value - data[at + part]) < 4) && data[at + 3] > 200;
    return same / height;
}"""
"""How much of a lane has the colour of a style, where no line of the grid is."""


HEIGHTS = (1.0, 0.4, 0.2)
"""Of a bar drawn in full, of a low mark, of the lowest, which covers half of the low one."""


def merged(lane: Lane, window: tuple[int, int], pixels: int) -> dict[str, float]:
    """How high a figure paints each style at the same place."""
    at, heights = round(0.47 * window[0] + 0.53 * window[1]), {}
    for parts in for_pixels(lane, *window, pixels):
        for bars, height in zip(parts, HEIGHTS, strict=True):
            if ((bars.start_ns <= at) & (at < bars.end_ns)).any():
                heights[bars.style.value] = height
    return heights


def test_it_merges_short_bars_as_a_figure_does(opened: Open, tmp_path: Path) -> None:
    path, trace = tmp_path / "report.html", open_trace(short_work(tmp_path))
    save_report(audit(trace), path)
    page = opened(path)
    about = json.loads(page.locator("#timeline-about").inner_text())
    titles = [lane["title"] for lane in about["views"][0]["lanes"]]
    pixels = int(page.evaluate("document.querySelector('#timeline .u-over').clientWidth"))
    found = {lane.title: merged(lane, work_window(trace), pixels) for lane in lanes(trace)}
    assert found["GPU 0 stream 20"] == {Style.HTOD_PAGEABLE: 0.4}
    assert found["GPU 0 stream 21"] == {Style.KERNEL: 1.0}
    assert found["GPU 0 stream 22"] == {Style.KERNEL: 0.4, Style.DTOH_PINNED: 0.2}
    for number in (20, 21, 22):
        title = f"GPU 0 stream {number}"
        lowest = {style for style, height in found[title].items() if height == HEIGHTS[-1]}
        for style in about["styles"]:
            shown = page.evaluate(SHARE_OF_LANE, [titles.index(title), len(titles), style["color"]]) / 0.8
            height = found[title].get(style["name"], 0.0)
            covered = HEIGHTS[-1] if height == HEIGHTS[1] and lowest else 0.0
            assert shown == pytest.approx(height - covered, abs=0.1), (title, style["name"])
