"""The documentation site in a browser, from the disk: links, search, looks, nothing from elsewhere.

`make test-docs` builds the site first; without it these tests are skipped.
"""

import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest

import fastlloyd
from browsers import missing
from clone import ROOT
from firefox import ENTER, TAB, firefox

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.pages
HERE = Path(__file__).parent
TOP = ROOT / "build/docs"
SITE = TOP / fastlloyd.__version__
SHOTS = os.environ.get("FASTLLOYD_SHOTS")  # folder for pictures
RULES = {
    "type": "tag",
    "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}
MAIN = (
    "index",
    "start",
    "how-to/choosing-parameters",
    "reference/python-estimators",
    "reference/command-line",
    "gallery",
    "for-approval",
    "notebooks/central",
)
FOUND = {  # by a search for these words, among the first ten pages
    "patient objects": "questions.html",
    "check_private_pipeline": "reference/python-forecasts-ledger-pipelines.html",
    "fingerprints": "how-to/fingerprints.html",
    "GDPR": "data-protection.html",
    "retention": "data-protection.html",
    "laptop stolen": "how-to/incidents.html",
}
LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}


class Links(HTMLParser):
    """Links, ids and loaded files of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.ids: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids |= {value for name in ("id", "name") if (value := given.get(name))}
        if tag == "a" and (target := given.get("href")):
            self.targets.add(target)
        if address := given.get(LOADED.get(tag, "")):
            self.loaded.add(address)


@pytest.fixture(scope="module")
def pages() -> dict[Path, Links]:
    if not (SITE / "index.html").is_file():
        missing("the site (make docs)")
    return {path.resolve(): Links(path) for path in SITE.rglob("*.html")}


@pytest.fixture
def opened(browser: "Browser", pages: dict[Path, Links]) -> "Iterator[Any]":
    """Function that opens a page of the site, and fails if anything comes from elsewhere."""
    contexts, asked, said = [], list[str](), list[str]()

    def visit(name: str, **options: Any) -> "Page":
        context = browser.new_context(**options)
        contexts.append(context)
        visited = context.new_page()
        visited.on("request", lambda request: asked.append(request.url))
        visited.on("console", lambda message: said.append(message.text))
        visited.goto(f"{SITE.as_uri()}/{name}")
        return visited

    yield visit
    assert [url for url in asked if not url.startswith((TOP.as_uri(), "data:", "blob:"))] == []
    assert said == []
    for context in contexts:
        context.close()


def test_every_link_leads_to_a_page_and_a_place_that_are_there(pages: dict[Path, Links]) -> None:
    assert len(pages) > 80
    for path, links in pages.items():
        for target in links.targets | links.loaded:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                assert target in links.targets, f"{path.name} loads {target}"
                assert parts.scheme in ("http", "https", "mailto"), target
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert there.is_file(), f"{path.relative_to(SITE)} leads to {target}"
            assert there.is_relative_to(SITE) or there == TOP / "index.html", target
            if parts.fragment and there in pages:
                assert unquote(parts.fragment) in pages[there].ids | {"", "top"}, (path, target)


def test_every_page_is_reached_from_the_first(pages: dict[Path, Links]) -> None:
    first = (SITE / "index.html").resolve()
    reached, frontier = {first}, {first}
    while frontier:
        targets = {
            (path.parent / unquote(urlsplit(target).path)).resolve()
            for path in frontier
            for target in pages[path].targets
            if not urlsplit(target).scheme and urlsplit(target).path
        }
        frontier = targets & pages.keys() - reached
        reached |= frontier
    assert pages.keys() - reached == {(SITE / "search.html").resolve()}  # by the form


@pytest.mark.parametrize("words", FOUND)
def test_search_finds_the_page_without_a_server(opened: Any, words: str) -> None:
    visited = opened("index.html", viewport={"width": 1280, "height": 900})
    visited.fill(".sidebar-search", words)
    visited.press(".sidebar-search", "Enter")
    visited.wait_for_selector("#search-results li a", timeout=20_000)
    visited.wait_for_function("document.querySelector('#search-results p.search-summary')")
    shown = visited.eval_on_selector_all("#search-results li > a", "all => all.map(a => a.href)")
    first = [urlsplit(url).path.removeprefix(f"{SITE}/") for url in shown[:10]]
    assert FOUND[words] in first


def test_without_scripts_a_page_shows_its_text_and_lists(opened: Any) -> None:
    visited = opened("questions.html", java_script_enabled=False)
    assert visited.locator("h1").first.inner_text() == "Questions"
    assert visited.locator("article a").count() > 10
    assert visited.locator(".sidebar-tree a").count() > 20


def test_the_cheat_sheet_is_printed_on_one_page(opened: Any) -> None:
    margin = dict.fromkeys(("top", "bottom", "left", "right"), "12mm")
    printed = opened("cheat-sheet.html").pdf(format="A4", margin=margin)
    assert len(re.findall(rb"/Type /Page\b", printed)) == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", MAIN)
def test_a_page_fits_its_window_and_axe_finds_no_fault(opened: Any, name: str, scheme: str) -> None:
    visited = opened(f"{name}.html", color_scheme=scheme)
    for width in (390, 1280):
        visited.set_viewport_size({"width": width, "height": 900})
        assert visited.evaluate("document.documentElement.scrollWidth") <= width
        if SHOTS:
            visited.screenshot(path=f"{SHOTS}/{name.replace('/', '-')}-{width}-{scheme}.png")
    axe = HERE / "node_modules/axe-core/axe.min.js"
    if not axe.is_file():
        missing("axe-core (npm ci in tests/pages)")
    visited.add_script_tag(path=str(axe))
    found = visited.evaluate("rules => axe.run(document, {runOnly: rules, preload: false})", RULES)
    assert len(found["passes"]) > 20
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found["violations"]] == []


def test_stable_and_latest_lead_to_the_same_page_of_the_version(opened: Any) -> None:
    names = sorted(path.relative_to(SITE) for path in SITE.rglob("*.html"))
    for name in ("stable", "latest"):
        assert (
            sorted(path.relative_to(TOP / name) for path in (TOP / name).rglob("*.html")) == names
        )
        visited = opened(f"../{name}/how-to/logs.html#top")
        visited.wait_for_url(f"{SITE.as_uri()}/how-to/logs.html#top")
    visited = opened("how-to/logs.html")
    line = visited.locator(".versions")
    assert f"Version {fastlloyd.__version__}" in line.inner_text()
    line.locator("a").click()
    visited.get_by_role("link", name=fastlloyd.__version__).click()
    visited.wait_for_url(f"{SITE.as_uri()}/index.html")


REACHABLE = """() => [...document.querySelectorAll(
  'a[href], button, input, select, textarea, summary, [tabindex="0"]')].filter(each =>
  each.checkVisibility({visibilityProperty: true}) && each.getClientRects().length)"""
FOCUS = "() => reachable.indexOf(document.activeElement)"
MARKED = """() => {
  const focused = document.activeElement, near = [focused, focused.parentElement,
    ...document.querySelectorAll('label, .nav-overlay-icon, .toc-overlay-icon')];
  return near.some(each => getComputedStyle(each).outlineStyle !== 'none');
}"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", [*MAIN, "search"])
def test_the_tab_key_reaches_all_in_order_shows_where_it_is_and_leaves(
    opened: Any, name: str, width: int
) -> None:
    visited = opened(f"{name}.html", viewport={"width": width, "height": 900})
    n = visited.evaluate(f"() => (window.reachable = ({REACHABLE})()).length")
    assert n > 4
    for place in range(n):
        visited.keyboard.press("Tab")
        assert visited.evaluate(FOCUS) == place
        assert visited.evaluate(MARKED), visited.evaluate("document.activeElement.outerHTML")
    visited.keyboard.press("Tab")
    assert visited.evaluate("document.activeElement === document.body")  # the browser's own bar


def test_a_link_skips_to_the_text(opened: Any) -> None:
    visited = opened("questions.html", viewport={"width": 1280, "height": 900})
    visited.keyboard.press("Tab")
    assert visited.evaluate("document.activeElement.textContent").strip() == "Skip to content"
    visited.wait_for_function("document.activeElement.getBoundingClientRect().top >= 0")
    visited.keyboard.press("Enter")
    visited.keyboard.press("Tab")
    assert visited.evaluate("document.activeElement.closest('.content') !== null")


def test_on_a_narrow_screen_the_keyboard_opens_and_closes_the_list_of_pages(opened: Any) -> None:
    visited = opened("questions.html", viewport={"width": 390, "height": 900})
    switch, field = visited.get_by_role("button", name="All pages"), ".sidebar-search"
    assert not visited.locator(field).is_visible()
    assert switch.get_attribute("aria-expanded") == "false"
    for _ in range(2):  # to the text, and all pages
        visited.keyboard.press("Tab")
    visited.keyboard.press("Space")
    assert switch.get_attribute("aria-expanded") == "true"
    visited.keyboard.press("Enter")
    assert not visited.locator(field).is_visible()
    visited.keyboard.press("Enter")
    visited.wait_for_selector(field)
    for _ in range(8):
        visited.keyboard.press("Tab")
        if visited.evaluate("document.activeElement.name") == "q":
            break
    visited.keyboard.type("fingerprints")
    visited.keyboard.press("Enter")
    visited.wait_for_selector("#search-results li a", timeout=20_000)


def test_firefox_searches_the_site_by_keyboard_from_the_disk(tmp_path: Path) -> None:
    if not (SITE / "index.html").is_file():
        missing("the site (make docs)")
    with firefox(tmp_path) as browser:
        browser.goto(f"{TOP.as_uri()}/stable/index.html")
        browser.wait_for(f"return location.href === '{SITE.as_uri()}/index.html'")
        browser.wait_for("return document.readyState === 'complete'")
        browser.press(TAB)
        assert browser.run("return document.activeElement.className").startswith("skip-to-content")
        for _ in range(6):
            browser.press(TAB)
            if browser.run("return document.activeElement.name") == "q":
                break
        browser.press(*"fingerprints", ENTER)
        browser.wait_for("return document.querySelector('#search-results p.search-summary')")
        found = "[...document.querySelectorAll('#search-results li > a')]"
        browser.wait_for(f"return {found}.some(each => each.href.endsWith('fingerprints.html'))")
        for _ in range(99):
            browser.press(TAB)
            if browser.run("return document.activeElement.closest('#search-results') !== null"):
                break
        browser.press(ENTER)
        browser.wait_for("return document.querySelector('h1') && !location.search.includes('q=')")
        assert browser.run(
            "return performance.getEntriesByType('resource').every(e => e.name.startsWith('file:'))"
        )
