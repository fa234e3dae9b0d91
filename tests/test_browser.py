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
from overlapscope.page.page import save_report
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
    assert "held by a copy call" in page.inner_text("#tip")


def test_the_replayed_trace_can_be_shown_instead(opened: Open, report: Path) -> None:
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
