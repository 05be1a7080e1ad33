"""The report of a campaign in Chromium: what it loads, draws and sorts, and how it looks on a phone and in the dark."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bitrift.report
import pytest
from bitrift.program import program
from browser import PROGRAM, SECONDS, Browser
from synthetic import study_rows, write_campaign

pytestmark = pytest.mark.skipif(PROGRAM is None and not os.environ.get("CI"), reason="no chromium")

SAMPLES = Path(__file__).resolve().parents[1] / "data" / "earlier" / "2026-11" / "campaigns"

# Text and marks with less than 4.5 : 1 against what is behind them (WCAG 2.1, 1.4.3), by luminance of sRGB.
CONTRASTS = """(() => {
  const parse = (text) => {
    const numbers = text.match(/[\\d.]+/g).map(Number);
    return { rgb: numbers.slice(0, 3), alpha: numbers[3] ?? 1 };
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((one) => one / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour.alpha > 0) return colour.rgb;
    }
    return [255, 255, 255];
  };
  const ratio = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const found = [];
  let looked = 0;
  for (const element of document.querySelectorAll("body *")) {
    const style = getComputedStyle(element);
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const mark = element.matches(".dot");
    if ((!own && !mark) || element.closest("script, title") || !element.getClientRects().length) continue;
    const svg = element.closest("svg");
    const value = ratio(parse(svg ? style.fill : style.color).rgb, behind(svg ? svg.parentElement : element));
    looked += 1;
    if (value < 4.5) found.push(`${element.tagName} ${element.className.baseVal ?? element.className}: ${value}`);
  }
  return { found, looked };
})()"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("campaign") / "study"
    write_campaign(folder, study_rows(), ["serial", "data2"])
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture(scope="module", params=["study", "trained", "models"])
def page(request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with comparisons, one with propagation, and one of fault models and a drill."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    bitrift.report.write(folder if request.param == "study" else SAMPLES / request.param, path)
    return path


def test_the_page_loads_only_itself_and_the_console_is_silent(browser: Browser, page: Path) -> None:
    browser.look(1100, 900)
    browser.open(page.as_uri())
    assert browser.requests() == [page.as_uri()]
    assert browser.errors() == []


def test_an_error_and_a_request_would_be_seen(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text("<img src='none.png'><script>undefined.x</script>")
    browser.open((tmp_path / "bad.html").as_uri())
    assert len(browser.requests()) == 2
    assert len(browser.errors()) >= 2


def test_every_chart_is_drawn_inside_of_its_row(browser: Browser, page: Path) -> None:
    browser.look(1100, 900)
    browser.open(page.as_uri())
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    places = browser.run(
        """[...document.querySelectorAll(".mark .dot, .mark .whisker, .cell")].map((mark) => {
          const place = mark.getBoundingClientRect();
          const track = mark.closest("svg.track").getBoundingClientRect();
          return [place.width + place.height, place.left - track.left, track.right - place.right,
                  place.top - track.top, track.bottom - place.bottom];
        })"""
    )
    assert len(places) >= 24
    assert all(size > 0 for size, *_ in places)
    assert all(min(left, right) >= -7 and min(top, bottom) >= -1 for _, left, right, top, bottom in places)
    texts = browser.run("[...document.querySelectorAll('.scale text')].map((one) => one.textContent)")
    assert any("%" in text for text in texts)


def test_marks_are_where_the_axis_says(browser: Browser, folder: Path, tmp_path: Path) -> None:
    bitrift.report.write(folder, tmp_path / "r.html")
    browser.look(1100, 900)
    browser.open((tmp_path / "r.html").as_uri())
    shares = browser.run(
        """[...document.querySelectorAll("#rates .mark")].map((mark) => {
          const track = mark.closest("svg.track").getBoundingClientRect();
          const dot = mark.querySelector(".dot").getBoundingClientRect();
          return [mark.querySelector("title").textContent, (dot.left + dot.width / 2 - track.left) / track.width];
        })"""
    )
    high = float(browser.run("document.querySelector('#rates .scale text:last-child').textContent").split()[0])
    assert len(shares) == 8
    for title, share in shares:
        rate = float(re.findall(r"(?:SDC|crash) ([\d.]+)", title)[0])
        assert share * high == pytest.approx(rate, abs=0.3), title


def column(browser: Browser, number: int) -> list[str]:
    script = (
        f"[...document.querySelectorAll('#rates table')[0].tBodies[0].rows].map((row) => row.cells[{number}].innerText)"
    )
    return [str(text).split()[0] for text in browser.run(script)]


def test_tables_sort_by_pointer_and_keyboard(browser: Browser, folder: Path, tmp_path: Path) -> None:
    bitrift.report.write(folder, tmp_path / "r.html")
    browser.look(1100, 900)
    browser.open((tmp_path / "r.html").as_uri())
    head = "document.querySelectorAll('#rates table')[0].tHead.rows[0].cells[4]"
    before = column(browser, 4)
    assert [browser.run(f"{head}.innerText"), browser.run(f"{head}.getAttribute('aria-sort')")] == ["SDC %", "none"]
    browser.run(f"{head}.querySelector('button').click()")
    rising = column(browser, 4)
    assert rising == sorted(before, key=float) and rising != before
    assert browser.run(f"{head}.getAttribute('aria-sort')") == "ascending"
    browser.run(f"{head}.querySelector('button').focus()")
    browser.press("Enter", 13, "\r")
    assert column(browser, 4) == sorted(before, key=float, reverse=True)
    assert browser.run(f"{head}.getAttribute('aria-sort')") == "descending"
    other = head.replace("cells[4]", "cells[0]")
    browser.run(f"{other}.querySelector('button').focus()")
    browser.press(" ", 32, " ")
    assert column(browser, 0) == ["data2", "data2", "serial", "serial"]
    assert browser.run(f"{head}.getAttribute('aria-sort')") == "none"


def test_the_keyboard_reaches_the_skip_link_first_and_shows_where_it_is(browser: Browser, page: Path) -> None:
    browser.look(1100, 900)
    browser.open(page.as_uri())
    browser.press("Tab", 9)
    skip = browser.run(
        "[document.activeElement.className, document.activeElement.getBoundingClientRect().left >= 0,"
        " getComputedStyle(document.activeElement).outlineStyle]"
    )
    assert skip == ["skip", True, "solid"]
    browser.press("Enter", 13, "\r")
    assert browser.run("location.hash") == "#verdict"


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_needs_no_sideways_scrolling(browser: Browser, page: Path, width: int) -> None:
    browser.look(width, 800, touch=True)
    browser.open(page.as_uri())
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert browser.run("[innerWidth, document.documentElement.scrollWidth]") == [width, width]
    wide = browser.run(
        """[...document.querySelectorAll("main *")].filter((one) => !one.closest(".table, pre, svg")
          && one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML.slice(0, 80))"""
    )
    assert wide == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_and_marks_have_contrast(browser: Browser, page: Path, dark: bool) -> None:
    browser.look(1100, 900, dark=dark)
    browser.open(page.as_uri())
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    paper = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper)[:3])) < 200) is dark
    seen: dict[str, Any] = browser.run(CONTRASTS)
    assert seen["looked"] > 100 and seen["found"] == []


def test_the_button_changes_the_colours_and_the_page_remembers(browser: Browser, page: Path) -> None:
    browser.look(1100, 900)
    browser.open(page.as_uri())
    paper = "getComputedStyle(document.body).backgroundColor"
    light = browser.run(paper)
    browser.run("document.querySelector('button.theme').click()")
    dark = browser.run(paper)
    assert dark != light
    # Chromium may load the page in a new process, which can read the storage before the old one's write has arrived.
    deadline = time.monotonic() + SECONDS
    browser.open(page.as_uri())
    while browser.run(paper) != dark and time.monotonic() < deadline:
        browser.open(page.as_uri())
    assert browser.run(paper) == dark
    browser.run("document.querySelector('button.theme').click()")
    assert browser.run(paper) == light


def test_paper_is_white_and_has_what_was_folded(browser: Browser, page: Path) -> None:
    browser.look(1100, 900, dark=True)
    browser.open(page.as_uri())
    browser.send(
        "Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert browser.send("Page.printToPDF")["data"].startswith("JVBERi0")  # %PDF-
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("[...document.querySelectorAll('details')].every((one) => one.open)") is True
    browser.send("Emulation.setEmulatedMedia", media="")


def test_a_watched_page_loads_itself_again(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    write_campaign(folder, study_rows()[:-1], ["serial", "data2"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program(), "report", str(folder), "--watch", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None and str(port) in server.stdout.readline()
        browser.look(1100, 900)
        browser.open(f"http://127.0.0.1:{port}/")
        assert "79 of 80" in browser.run("document.querySelector('.lead').innerText")
        write_campaign(folder, study_rows(), ["serial", "data2"])
        # The page may be loaded again while the campaign is being written.
        for _ in range(3):
            browser.wait("Page.loadEventFired")
            lead = browser.run("document.querySelector('.lead').innerText")
            if "all 80 planned trials" in lead:
                break
        assert "all 80 planned trials" in lead
        assert browser.errors() == []
        assert {url.rsplit("/", 1)[0] for url in browser.requests()} == {f"http://127.0.0.1:{port}"}
    finally:
        server.terminate()
        server.communicate(timeout=10)
