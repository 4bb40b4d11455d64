"""The page of a result in a browser: nothing cut off, readable, and nothing asked from elsewhere."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from browsers import missing
from fastlloyd.mechanisms.lloyd.algorithm import LLOYD
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.uncertainty import Status
from fastlloyd.reports.names import Names
from fastlloyd.reports.registry import PeopleFacts
from fastlloyd.reports.run_result import NAMES
from pages import HEBREW, NASTY, page, random_result, replaced, result_of, statement

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.pages
HERE = Path(__file__).parent
SHOTS = os.environ.get("FASTLLOYD_SHOTS")  # folder for pictures of all states
LOOKS = (HERE / "looks.js").read_text()
WIDTHS, SCHEMES = (390, 1280, 2560), ("light", "dark")
RULES = {
    "type": "tag",
    "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}
MIXED = (Status.SETTLED, Status.MOVING, Status.FEW, Status.SETTLED, Status.STAYED)
SIXTY = "a b" * 20


def _named() -> str:
    names = Names(SIXTY, {0: SIXTY, 1: HEBREW, 2: NASTY, 3: "w" * 60})
    result = random_result(5, 3, features=[NASTY, HEBREW, "w" * 60])
    return page(result, {NAMES: names.to_toml().encode()})


def _without_noise() -> str:
    values = np.random.default_rng(1).uniform(0, 100, (4, 3))
    return page(
        replaced(result_of(values, errors=0.0, algorithm=LLOYD, delta=None), count_error=0.0)
    )


def _statement() -> str:
    return statement(random_result(3, 3), PeopleFacts(contact=NASTY, security="w" * 99))


STATES = {
    "one group": lambda: page(random_result(1, 4)),
    "one measurement": lambda: page(random_result(9, 1)),
    "a map": lambda: page(random_result(15, 2)),
    "eight measurements": lambda: page(random_result(5, 8)),
    "short cards and a heat map": lambda: page(random_result(13, 9)),
    "a table": lambda: page(random_result(41, 12, n_records=1_000_000)),
    "all few": lambda: page(random_result(5, 4, status=Status.FEW)),
    "mixed": lambda: page(random_result(5, 4, status=MIXED)),
    "wide bars": lambda: page(random_result(5, 8, errors=15.0)),
    "patients": lambda: page(random_result(3, 3, persons=Persons.called("patient"))),
    "names": _named,
    "without noise": _without_noise,
    "statement": _statement,
}


@pytest.fixture(params=STATES)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "result.html"
    path.write_text(STATES[request.param]())
    return path


@pytest.fixture
def opened(browser: "Browser", file: Path) -> "Iterator[Any]":
    """Function that opens the file, and fails if it asked for more or complained."""
    contexts, asked, said = [], list[str](), list[str]()

    def visit(**options: Any) -> "Page":
        context = browser.new_context(**options)
        contexts.append(context)
        visited = context.new_page()
        visited.on("request", lambda request: asked.append(request.url))
        visited.on("console", lambda message: said.append(message.text))
        visited.goto(file.as_uri())
        for details in visited.locator("details").all():
            details.evaluate("each => each.open = true")
        return visited

    yield visit
    assert asked == [file.as_uri()] * len(contexts)
    assert said == []
    for context in contexts:
        context.close()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_page_is_readable_at_every_width(
    opened: Any, scheme: str, request: pytest.FixtureRequest
) -> None:
    visited = opened(color_scheme=scheme)
    for width in WIDTHS:
        visited.set_viewport_size({"width": width, "height": 900})
        assert visited.evaluate(LOOKS) == [], width
        if SHOTS:
            name = re.sub(r"\W+", "-", request.node.callspec.id)
            visited.screenshot(path=f"{SHOTS}/result-{name}-{width}.png", full_page=True)


def test_the_page_prints(opened: Any, tmp_path: Path) -> None:
    printed = opened().pdf(prefer_css_page_size=True)
    assert printed.startswith(b"%PDF")
    assert printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") <= 60


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_no_fault(browser: "Browser", file: Path, scheme: str) -> None:
    axe = HERE / "node_modules/axe-core/axe.min.js"
    if not axe.is_file():
        missing("axe-core (npm ci in tests/pages)")
    # the policy of the page allows no script, not even that of the test
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)  # type: ignore[arg-type]
    visited = context.new_page()
    visited.goto(file.as_uri())
    visited.evaluate("() => document.querySelectorAll('details').forEach(each => each.open = true)")
    visited.add_script_tag(path=str(axe))
    found = visited.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)
    context.close()
    assert len(found["passes"]) > 20
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found["violations"]] == []


def test_every_link_and_every_box_that_scrolls_is_reached_by_keyboard(opened: Any) -> None:
    visited = opened(viewport={"width": 390, "height": 900})
    reached = set()
    for _ in range(40):
        visited.keyboard.press("Tab")
        reached.add(
            visited.evaluate("document.activeElement.tagName + document.activeElement.className")
        )
    assert "A" in reached
    if visited.locator(".scroll").count():
        assert any("scroll" in each for each in reached)
