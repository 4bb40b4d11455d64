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

from browsers import missing
from clone import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.pages
HERE = Path(__file__).parent
SITE = ROOT / "build/docs"
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
    assert [url for url in asked if not url.startswith((SITE.as_uri(), "data:", "blob:"))] == []
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
            assert there.is_relative_to(SITE), target
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
