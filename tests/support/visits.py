"""Visits to the app in a browser, and what must hold of each of its pages."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from app_process import App
from clone import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HERE = ROOT / "tests/pages"
LOOKS = (HERE / "looks.js").read_text()
RULES = {
    "type": "tag",
    "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}
AXE = HERE / "node_modules/axe-core/axe.min.js"
SHOTS = os.environ.get("FASTLLOYD_SHOTS")


class Visit:
    """One visit to the app, which notes what the browser asks for and complains about."""

    def __init__(self, browser: "Browser", app: App, **options: object) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | options)  # type: ignore[arg-type]
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(15_000)
        self.elsewhere: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda asked: self._note(app, asked.url))
        self.page.on("console", lambda said: self.complaints.append(said.text))

    def _note(self, app: App, url: str) -> None:
        if not url.startswith((app.address, "file:")):
            self.elsewhere.append(url)

    def shot(self, name: str) -> None:
        """Keep a picture of the page, and check that nothing is cut off at its side."""
        width = self.page.viewport_size
        assert width is not None
        assert self.page.evaluate("document.documentElement.scrollWidth") <= width["width"]
        if SHOTS:
            Path(SHOTS).mkdir(exist_ok=True, parents=True)
            self.page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)

    def close(self) -> None:
        """End the visit."""
        assert self.elsewhere == []
        assert self.complaints == []
        self.context.close()


def enter(page: "Page", app: App) -> None:
    page.goto(app.opener)
    page.wait_for_url(app.address)
    page.wait_for_selector("text=What would you like to do?")


def faults_of_access(page: "Page", axe: str) -> list[str]:
    """What axe-core finds on a page, and texts of too little contrast, in light and dark."""
    found: list[str] = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.evaluate(axe)
        result = page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)
        found += [f"{each['id']}: {each['nodes'][0]['html'][:90]}" for each in result["violations"]]
        found += page.evaluate(LOOKS)
    return found


def small_targets(page: "Page") -> list[str]:
    """Buttons, fields and choices that are lower than 44 px, outside running text."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll(
             'button, .button, input[type=text], select, label.choice, summary, .ladder label')]
           .filter(e => e.offsetParent && e.getBoundingClientRect().height < 43.5)
           .map(e => e.outerHTML.slice(0, 80))"""
    )
    return found


def unlabelled(page: "Page") -> list[str]:
    """Fields without a label, and ids that are there twice."""
    found: list[str] = page.evaluate(
        """() => {
          const fields = [...document.querySelectorAll('input:not([type=hidden]), select')];
          const bare = fields.filter(e => !e.labels.length && !e.ariaLabel).map(e => e.outerHTML);
          const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
          const told = [...document.querySelectorAll('[aria-describedby]')]
            .flatMap(e => e.getAttribute('aria-describedby').split(' '))
            .filter(id => !document.getElementById(id));
          return [...bare, ...ids.filter((id, n) => ids.indexOf(id) !== n), ...told];
        }"""
    )
    return found
