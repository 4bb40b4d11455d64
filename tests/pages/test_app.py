"""The app in a browser: from a file to a result, by a person who types no commands."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app_process import App, running, write_patients
from fastlloyd.federation.holder import HoldersLedger

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.pages
SHOTS = os.environ.get("FASTLLOYD_SHOTS")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    write_patients(tmp_path / "patients.csv")
    with running(tmp_path) as started:
        yield started


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


def to_confirm(visit: Visit, app: App, here: Path, prefix: str = "") -> None:
    """Answer all questions up to the last page."""
    page = visit.page
    enter(page, app)
    visit.shot(f"{prefix}0-start")
    page.click("text=Find groups in records of mine")
    page.fill("#path", str(here / "patients.csv"))
    page.check("input[name=header][value=yes]")
    visit.shot(f"{prefix}1-file")
    page.click("button:has-text('Continue')")
    page.wait_for_selector("text=Who is protected?")
    page.click("button:has-text('Continue')")
    page.wait_for_selector("[role=alert]")
    visit.shot(f"{prefix}2-protect-refused")
    page.check("input[name=unit][value=person]")
    page.fill("#who", "patient")
    page.fill("#n_records", "2,500")
    page.fill("#dataset", "ward-7")
    page.check("#is_new")
    visit.shot(f"{prefix}2-protect")
    page.click("button:has-text('Continue')")
    page.wait_for_selector("text=How small, how large")
    page.check("input[name=rows][value=mean]")
    for at, (lower, upper) in enumerate(((0, 110), (60, 10), (0.2, 15))):
        page.fill(f"#lower{at}", str(lower))
        page.fill(f"#upper{at}", str(upper))
    page.select_option("#scale2", "log")
    page.click("button:has-text('Continue')")
    page.wait_for_selector("[role=alert]")
    visit.shot(f"{prefix}3-bounds-refused")
    page.fill("#lower1", "10")
    page.fill("#upper1", "60")
    visit.shot(f"{prefix}3-bounds")
    page.click("button:has-text('Continue')")
    page.wait_for_selector("text=How many groups?")
    page.fill("#k", "3")
    page.click("button:has-text('Show what each')")
    page.wait_for_selector(".ladder")
    assert page.locator("input[name=epsilon]:checked").count() == 0
    visit.shot(f"{prefix}4-ladder")
    page.click("button:has-text('Continue')")
    page.wait_for_selector("[role=alert]")
    page.check("input[name=epsilon][value='1']")
    page.click("button:has-text('Continue')")
    page.wait_for_selector("text=Spend it?")
    visit.shot(f"{prefix}5-confirm")


def test_a_file_becomes_groups_and_labels_and_epsilon_is_counted_once(
    browser: "Browser", app: App, tmp_path: Path
) -> None:
    visit = Visit(browser, app)
    page = visit.page
    to_confirm(visit, app, tmp_path)
    folder = Path(page.input_value("#out"))
    page.click("button:has-text('Spend epsilon 1 and start')")
    page.wait_for_selector("h1")
    visit.shot("6-run")
    page.wait_for_selector("text=Finished.", timeout=60_000)
    if page.is_visible("text=See how it ended"):
        page.click("text=See how it ended")
    page.wait_for_selector("text=Your result")
    visit.shot("7-result")
    assert (folder / "privacy.json").is_file()
    with visit.context.expect_page() as opened:
        page.click("text=Open the result")
    opened.value.wait_for_load_state()
    if SHOTS:
        opened.value.screenshot(path=f"{SHOTS}/8-result-page.png", full_page=True)
    page.click("text=Label my records")
    page.wait_for_selector("text=NOT private")
    visit.shot("9-labels")
    assert (tmp_path / "patients-groups-NOT-PRIVATE.csv").read_text().startswith("record,cluster")
    page.goto(app.address + "ledger")
    visit.shot("10-ledger")
    runs = HoldersLedger(tmp_path / "ledger.store").history().runs
    assert len(runs) == 1
    assert not (tmp_path / "ledger.store").is_symlink()
    page.goto(app.address)
    visit.shot("11-start")
    visit.close()
