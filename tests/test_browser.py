"""The report in a real browser: it loads, moves, keeps to itself, and hostile names do nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from overlapscope import audit, open_trace
from overlapscope.html.page import save_report
from overlapscope.timeline.bars import Style
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


def until(page: Page, condition: str) -> None:
    """Wait for a condition; as a function, since the page's policy allows no text to become a program."""
    page.wait_for_function(f"() => {condition}")


def colours(page: Page) -> int:
    """How many colours are on the timeline."""
    found: int = page.evaluate(
        """() => { const canvas = document.getElementById('bars');
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
        for (let at = 0; at < data.length; at += 4) seen.add(data[at] << 16 | data[at + 1] << 8 | data[at + 2]);
        return seen.size; }"""
    )
    return found


def test_it_loads_and_shows_everything(opened: Open, report: Path) -> None:
    page = opened(report)
    shown = view(page)
    assert shown["first"] <= shown["begin"]
    assert shown["last"] >= shown["end"]
    assert colours(page) > 8
    assert page.locator(".finding").count() >= 1


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


class Bars:
    """The canvas of a page's timeline, with lanes by their title."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.view = page.evaluate("JSON.parse(document.getElementById('timeline-about').textContent).views[0]")

    def point(self, lane: str, at_ns: float) -> tuple[float, float]:
        """Where a time is in a lane."""
        number = [entry["title"] for entry in self.view["lanes"]].index(lane)
        box, shown = self.page.locator("#bars").bounding_box(), view(self.page)
        assert box is not None
        row = shown["rows"][number]
        part = (at_ns - shown["first"]) / (shown["last"] - shown["first"])
        return box["x"] + part * box["width"], box["y"] + row["top"] + row["height"] / 2

    def click(self, lane: str, at_ns: float) -> None:
        """Click at a time in a lane."""
        self.page.mouse.click(*self.point(lane, at_ns))

    def drag(self, lane: str, from_ns: float, to_ns: float) -> None:
        """Drag from a time in a lane to another one."""
        (x, y), (to, _) = self.point(lane, from_ns), self.point(lane, to_ns)
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move((x + to) / 2, y)
        self.page.mouse.move(to, y)
        self.page.mouse.up()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two launches under operators, a kernel of 200 us and a copy of 1 MiB and 400 us."""
    folder = tmp_path_factory.mktemp("small")
    trace = make.write(
        folder / "t.json",
        make.annotation("train step", 0, 900),
        make.cpu_op("aten::mm", 10, 60),
        make.call(20, 10, correlation=1),
        make.kernel(100, 200, correlation=1, name="void ns::gemm<float, 128>(float*)"),
        make.cpu_op("aten::copy_", 200, 50),
        make.call(210, 20, correlation=2, name="cudaMemcpyAsync"),
        make.copy(400, 400, correlation=2, size=1 << 20, kinds="HtoD (Pinned -> Device)"),
    )
    save_report(audit(open_trace(trace), "train step"), folder / "report.html")
    return folder / "report.html"


US = 1000


def test_the_wheel_scrolls_and_with_control_it_zooms(opened: Open, report: Path) -> None:
    page = opened(report)
    page.locator("#bars").scroll_into_view_if_needed()
    page.mouse.move(*Bars(page).point("stream 13", 50e6))
    before, scrolled = view(page), page.evaluate("scrollY")
    page.mouse.wheel(0, 200)
    until(page, f"scrollY > {scrolled}")
    assert view(page) == before
    page.mouse.move(*Bars(page).point("stream 13", 50e6))
    page.keyboard.down("Control")
    page.mouse.wheel(0, -600)
    page.keyboard.up("Control")
    until(page, "overlapscope().last < overlapscope().end")
    zoomed = view(page)
    page.keyboard.down("Shift")
    page.mouse.wheel(0, 200)
    page.keyboard.up("Shift")
    until(page, f"overlapscope().first > {zoomed['first']}")
    moved = view(page)
    assert moved["last"] - moved["first"] == pytest.approx(zoomed["last"] - zoomed["first"])


def test_hovering_names_a_bar(opened: Open, small: Path) -> None:
    page = opened(small)
    page.mouse.move(*Bars(page).point("stream 13", 500 * US))
    assert page.inner_text("#tip").splitlines()[:2] == ["HtoD copy, 1 MiB", "HtoD pinned"]
    page.mouse.move(*Bars(page).point("stream 13", 200 * US))
    assert not page.locator("#tip").is_visible()


def test_a_click_shows_details_and_leads_to_the_launch_and_back(opened: Open, small: Path) -> None:
    page = opened(small)
    Bars(page).click("stream 13", 500 * US)
    details = page.locator("#details")
    facts = dict(zip(*(details.locator(kind).all_inner_texts() for kind in ("dt", "dd")), strict=True))
    assert facts["kind"] == "HtoD pinned"
    assert facts["lane"] == "GPU 0 stream 13"
    assert facts["duration"] == "400 us"
    assert facts["bytes"] == "1,048,576 (1 MiB, 2.62 GB/s)"
    assert facts["launched by"] == "cudaMemcpyAsync on host main thread, 190 us before"
    assert facts["operator"] == "aten::copy_"
    assert facts["stack"].splitlines() == ["aten::copy_", "train step"]
    details.get_by_role("button", name="Go to its launch").click()
    assert details.locator("h3").inner_text() == "cudaMemcpyAsync"
    details.get_by_role("button", name="Go to its work").click()
    assert details.locator("h3").inner_text() == "HtoD copy"
    page.keyboard.press("Escape")
    details.get_by_role("button", name="Close").click()
    assert not details.is_visible()


def test_an_arrow_leads_from_the_launch(opened: Open, small: Path) -> None:
    """Between the lanes, nothing is painted but grid and arrow: it is there while a bar is selected."""
    page = opened(small)
    arrow = """(() => { const canvas = document.getElementById('bars'), { rows } = overlapscope();
        const y = Math.round((rows[1].top + rows[1].height + rows[2].top) / 2), link = [11, 92, 173];
        const data = canvas.getContext('2d').getImageData(0, y, canvas.width, 1).data;
        for (let at = 0; at < data.length; at += 4)
            if (link.every((value, part) => Math.abs(value - data[at + part]) < 40)) return true;
        return false; })()"""
    assert not page.evaluate(arrow)
    Bars(page).click("stream 7", 200 * US)
    until(page, arrow)
    page.keyboard.press("Escape")
    until(page, f"!{arrow}")


def test_dragging_measures(opened: Open, small: Path) -> None:
    """The ends snap to the edges of bars: the copy is from 400 to 800 us."""
    page = opened(small)
    bars = Bars(page)
    pixel = (view(page)["last"] - view(page)["first"]) / 1000
    bars.drag("stream 13", 400 * US + 3 * pixel, 800 * US - 3 * pixel)
    assert view(page)["measured"] == [400 * US, 800 * US]
    said = page.inner_text("#said")
    assert said == "Measured: 400 us, from 400 us to 800 us. GPU 0 stream 13: 1 bar, 400 us together"
    page.keyboard.press("Enter")
    shown = view(page)
    assert (shown["first"], shown["last"]) == (pytest.approx(400 * US, abs=20), pytest.approx(800 * US, abs=20))
    page.keyboard.press("Escape")
    assert view(page)["measured"] is None
    page.keyboard.down("Shift")
    bars.drag("stream 13", 500 * US, 600 * US)
    page.keyboard.up("Shift")
    assert view(page)["first"] == pytest.approx(300 * US, rel=0.02), "with Shift it moves"
    assert view(page)["measured"] is None


def test_search_goes_through_what_it_finds(opened: Open, report: Path) -> None:
    page = opened(report)
    page.keyboard.press("Tab")
    page.focus("#timeline")
    page.keyboard.press("/")
    page.keyboard.type("cudamemcpy")
    until(page, "overlapscope().matches > 0")
    count = view(page)["matches"]
    assert page.inner_text("#found") == f"{count:,} found"
    starts = []
    for number in range(1, 4):
        page.keyboard.press("Enter")
        assert page.inner_text("#found") == f"{number} of {count:,}"
        assert view(page)["selected"]["name"] == "cudaMemcpyAsync"
        starts.append(view(page)["selected"]["start"])
    assert starts == sorted(set(starts))
    page.get_by_role("button", name="Previous found bar").click()
    assert view(page)["selected"]["start"] == starts[1]
    page.focus("#timeline")
    page.keyboard.press("n")
    assert view(page)["selected"]["start"] == starts[2]
    page.fill("#sought", "nothing has this name")
    until(page, "overlapscope().matches === 0")
    assert page.inner_text("#found") == "0 found"


def test_bars_are_reached_with_the_keyboard(opened: Open, small: Path) -> None:
    page = opened(small)
    page.focus("#timeline")
    page.keyboard.press(".")
    assert view(page)["selected"]["name"] == "train step"
    page.keyboard.press("]")
    assert view(page)["selected"]["name"] == "cudaLaunchKernel"
    page.keyboard.press(".")
    assert view(page)["selected"]["name"] == "cudaMemcpyAsync"
    page.keyboard.press("]")
    assert view(page)["selected"]["name"] == "void ns::gemm<float, 128>(float*)"
    page.keyboard.press("l")
    assert view(page)["selected"]["name"] == "cudaLaunchKernel"
    page.keyboard.press("m")
    assert view(page)["measured"] == [20 * US, 30 * US]
    page.keyboard.press(".")
    page.keyboard.press("m")
    assert view(page)["measured"] == [20 * US, 230 * US], "on to the next call"
    assert "host main thread: 2 bars, 30 us together" in page.inner_text("#said")


def test_lanes_fold(opened: Open, small: Path) -> None:
    page = opened(small)
    before = view(page)["rows"]
    page.get_by_role("button", name="GPU 0").click()
    folded = view(page)["rows"]
    assert folded[:2] == before[:2]
    assert folded[-1]["top"] + folded[-1]["height"] - folded[2]["top"] < before[2]["height"] + 3
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "false"
    page.fill("#sought", "gemm")
    until(page, "overlapscope().matches === 1")
    page.press("#sought", "Enter")
    assert view(page)["rows"] == before, "what is looked for is unfolded"


def test_names_are_in_bars_where_they_fit(opened: Open, small: Path) -> None:
    page = opened(small)
    page.evaluate(
        """() => { window.texts = []; const fill = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
            if (this.canvas.id === 'bars') texts.push(text); fill.call(this, text, ...rest); }; }"""
    )
    page.evaluate("overlapscope().redraw()")
    assert {"train step", "gemm", "HtoD copy 1 MiB"} <= set(page.evaluate("texts"))
    assert "cudaLaunchKernel" not in page.evaluate("texts")
    page.focus("#timeline")
    bars = Bars(page)
    bars.drag("main thread", 18 * US, 45 * US)
    page.evaluate("texts.length = 0")
    page.keyboard.press("Enter")
    until(page, "texts.length > 0")
    assert "cudaLaunchKernel" in page.evaluate("texts")


def test_no_name_is_longer_than_its_bar(opened: Open, tmp_path: Path) -> None:
    """Wide letters first: an estimate by the number of letters would be too long at the end."""
    trace = make.write(
        tmp_path / "t.json",
        *[make.kernel(100 * at, 99 - at, name="i" * 40 + "WM" * 100) for at in range(20)],
        *[make.kernel(100 * at, 99 - at, name="WM" * 40 + "i" * 100, stream=8) for at in range(20)],
    )
    save_report(audit(open_trace(trace)), tmp_path / "report.html")
    page = opened(tmp_path / "report.html")
    widths = page.evaluate(
        """() => { const found = [], fill = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
            if (text.endsWith('…')) found.push(this.measureText(text).width); fill.call(this, text, ...rest); };
        overlapscope().redraw();
        return found; }"""
    )
    pixels = page.evaluate("document.getElementById('bars').width") / 20 / 1.02
    assert len(widths) > 20
    assert pixels - 30 < max(widths) <= pixels - 8


def test_a_row_of_a_table_jumps_to_its_place(opened: Open, report: Path) -> None:
    page = opened(report)
    row = (
        page.locator("table", has=page.locator("caption", has_text=re.compile("most expensive|by cost")))
        .locator("tbody tr")
        .nth(2)
    )
    ((first, last),) = json.loads(row.locator("button").get_attribute("data-places") or "")
    row.locator("td").last.click()
    shown = view(page)
    assert shown["first"] < first < last < shown["last"]
    assert shown["last"] - shown["first"] < 3 * (last - first)


def test_idle_time_leads_to_its_finding(opened: Open, report: Path) -> None:
    page = opened(report)
    page.fill("#sought", "OVL001")
    page.press("#sought", "Enter")
    assert view(page)["selected"]["name"].startswith("OVL001 pageable-copy: ")
    page.locator("#details").get_by_role("button", name="Go to its finding").click()
    page.wait_for_function(
        "Math.abs(document.querySelector('.finding[data-code=OVL001]').getBoundingClientRect().top) < 50"
    )


def test_the_simulated_trace_can_be_shown_instead(opened: Open, report: Path) -> None:
    page = opened(report)
    buttons = page.locator("button[data-view]")
    assert buttons.count() == 2
    buttons.nth(1).click()
    until(page, "overlapscope().label.startsWith('with pin')")
    assert buttons.nth(1).get_attribute("aria-pressed") == "true"
    page.locator("#finding-1 button").click()
    until(page, "overlapscope().label === 'measured'")  # which is where a finding is


def test_the_other_view_shows_the_step_that_was_in_view(opened: Open, tmp_path: Path) -> None:
    """A step that begins later as measured than with the fixes fills both, and the way back ends where it began."""
    path = tmp_path / "report.html"
    save_report(audit(open_trace(SAMPLES / "dataloader_train-pageable-blocking.json.gz"), "dataloader_train"), path)
    page = opened(path)
    page.fill("#sought", "step")
    page.press("#sought", "Enter")
    for _ in range(6):
        page.press("#sought", "Enter")
    page.locator("#details").get_by_role("button", name="Zoom to it").click()
    name, order = view(page)["selected"]["name"], page.inner_text("#found")
    measured = view(page)
    buttons = page.locator("button[data-view]")
    buttons.nth(1).click()
    until(page, "overlapscope().label !== 'measured'")
    fixed = view(page)
    assert fixed["first"] < measured["first"]
    page.press("#sought", "Enter")
    until(page, "overlapscope().selected !== null")
    again = view(page)
    assert (again["selected"]["name"], page.inner_text("#found")) == (name, order)
    assert fixed["first"] < again["selected"]["start"] < fixed["last"]
    assert (again["first"], again["last"]) == (fixed["first"], fixed["last"]), "it was in view"
    buttons.nth(0).click()
    until(page, "overlapscope().label === 'measured'")
    assert view(page)["first"] == pytest.approx(measured["first"], abs=1e3)
    assert view(page)["last"] == pytest.approx(measured["last"], abs=1e3)


def test_everything_in_view_stays_everything(opened: Open, report: Path) -> None:
    page = opened(report)
    page.locator("button[data-view]").nth(1).click()
    until(page, "overlapscope().label !== 'measured'")
    shown = view(page)
    assert shown["first"] <= shown["begin"] < shown["end"] <= shown["last"]


def test_a_jump_from_the_text_ends_a_search(opened: Open, report: Path) -> None:
    """Else what it points at would be dimmed."""
    page = opened(report)
    page.fill("#sought", "gemm")
    until(page, "overlapscope().matches > 0")
    page.locator("#finding-1 button").click()
    until(page, "overlapscope().matches === 0")
    assert page.input_value("#sought") == page.inner_text("#found") == ""


def test_hostile_names_do_nothing(opened: Open, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    save_report(audit(open_trace(hostile(tmp_path))), path)
    page = opened(path)
    assert page.evaluate("window.hacked") is None
    page.set_viewport_size({"width": 1280, "height": 1200})  # all of the timeline
    page.mouse.move(*Bars(page).point("ranges", 4e6))
    assert page.inner_text("#tip").startswith("</script><script>")
    Bars(page).click("ranges", 4e6)
    assert page.inner_text("#details h3").startswith("</script><script>")
    assert page.locator("img").count() == 0


def test_dark_mode_and_print(opened: Open, report: Path) -> None:
    light, dark = (opened(report, color_scheme=scheme) for scheme in ("light", "dark"))
    backs = [page.evaluate("getComputedStyle(document.body).backgroundColor") for page in (light, dark)]
    assert backs[0] == "rgb(255, 255, 255)"
    assert backs[1] != backs[0]
    assert colours(dark) > 8
    assert len(light.pdf(format="A4")) > 20_000
    light.emulate_media(media="print")
    assert light.locator("#bars").is_visible()
    dark.emulate_media(media="print")
    assert not dark.locator("#finding-1 button").is_visible()
    assert dark.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_a_finger_that_slips_off_does_not_go_on(opened: Open, small: Path) -> None:
    page = opened(small)
    bars = Bars(page)
    before = view(page)
    x, y = bars.point("stream 13", 600 * US)
    page.mouse.move(x, y)
    page.mouse.down(button="right")
    page.mouse.move(x + 100, y)
    page.mouse.up(button="right")
    assert view(page) == before, "only the main button measures"
    page.mouse.down()
    page.evaluate("document.getElementById('bars').dispatchEvent(new PointerEvent('lostpointercapture'))")
    page.mouse.move(x + 150, y)
    assert view(page) == before


def test_two_fingers_zoom(opened: Open, small: Path) -> None:
    page = opened(small, has_touch=True)
    page.locator("#bars").scroll_into_view_if_needed()
    (x, y), fingers = Bars(page).point("stream 13", 400 * US), page.context.new_cdp_session(page)
    before = view(page)
    for kind, apart in (("touchStart", 50), ("touchMove", 60), ("touchMove", 100)):
        points = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    after = view(page)
    assert after["last"] - after["first"] == pytest.approx((before["last"] - before["first"]) / 2, rel=0.05)
    assert after["measured"] is None
    assert after["selected"] is None


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


SHARE_OF_LANE = """([number, style]) => {
    const canvas = document.getElementById('bars'), { top, height } = overlapscope().rows[number];
    const css = getComputedStyle(document.documentElement).getPropertyValue(style).trim().slice(1);
    const wanted = [0, 2, 4].map(at => parseInt(css.slice(at, at + 2), 16));
    const left = Math.round(canvas.width * 0.31), width = Math.round(canvas.width * 0.07); // between lines of the grid
    const data = canvas.getContext('2d').getImageData(left, top, width, height).data;
    let same = 0;
    for (let at = 0; at < data.length; at += 4)
        same += wanted.every((value, part) => Math.abs(value - data[at + part]) < 4);
    return same / width / height;
}"""
"""How much of a stretch of a lane has the colour of a style."""


def test_short_bars_are_as_high_as_the_time_that_they_fill(opened: Open, tmp_path: Path) -> None:
    """1 % of a lane does not paint it, nor does it vanish."""
    path = tmp_path / "report.html"
    save_report(audit(open_trace(short_work(tmp_path))), path)
    page = opened(path)
    bars = Bars(page)
    titles = [lane["title"] for lane in bars.view["lanes"]]
    styles = {entry["name"]: entry["color"] for entry in json.loads(page.inner_text("#timeline-about"))["styles"]}
    for title, style, share in (
        ("stream 21", Style.KERNEL, 0.9), ("stream 22", Style.KERNEL, 0.09), ("stream 22", Style.DTOH_PINNED, 0.02),
        ("stream 22", Style.COLLECTIVE, 0.01), ("stream 20", Style.HTOD_PAGEABLE, 0.01), ("stream 20", Style.KERNEL, 0),
    ):  # fmt: skip
        shown = page.evaluate(SHARE_OF_LANE, [titles.index(title), styles[style]])
        assert shown == pytest.approx(share, abs=0.03), (title, style)
    rare = page.evaluate(
        SHARE_OF_LANE.replace(
            "wanted.every((value, part) => Math.abs(value - data[at + part]) < 4)",
            "data[at] !== 255 && data[at] !== 217",
        ),
        [titles.index("stream 20"), "--back"],
    )
    assert 0.01 < rare < 0.1, "pale, and there"
