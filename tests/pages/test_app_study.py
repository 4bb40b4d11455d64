"""A study in the browser: an organisation takes part with two others that use the command line."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app_process import App, running
from fastlloyd.base.sealed_toml import in_groups
from fastlloyd.dp.neighboring import NeighboringRelation, Neighbours
from fastlloyd.federation.holder import HoldersLedger
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.store.events import UnitLimitSet
from hospital import joining, make_sites, started
from visits import AXE, SHOTS, Visit, enter, faults_of_access, small_targets, unlabelled

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.pages
ABOUT = (
    *("--study", "Readmissions 2026", "--purpose", "groups of similar stays, to plan wards"),
    *("--controller", "City Health Office", "--contact", "privacy@city.example"),
)
COLUMNS = ("age_years", "creatinine_mg_dl", "crp_mg_l", "sex")


@pytest.fixture
def sites(tmp_path: Path) -> Path:
    (tmp_path / "sites").mkdir()
    return make_sites(tmp_path / "sites", *ABOUT)


@pytest.fixture
def app(tmp_path: Path, sites: Path) -> Iterator[App]:
    with running(tmp_path) as begun:
        yield begun


class Member(Visit):
    """A visit by keyboard alone, which checks each page that it sees."""

    def __init__(self, browser: "Browser", app: App, **options: object) -> None:
        super().__init__(browser, app, **options)
        self.number, self.faults = 0, dict[str, list[str]]()

    def reach(self, selector: str) -> None:
        """Press Tab until the focus is at the element."""
        for _ in range(80):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("s => document.activeElement.matches(s)", selector):
                return
        raise AssertionError(f"Tab does not lead to {selector}: {self.page.inner_text('main')}")

    def write(self, field: str, text: str) -> None:
        """Type a text into a field."""
        self.reach(f"#{field}")
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)

    def see(self, title: str) -> None:
        """Wait for a page; keep pictures of it, and look for faults."""
        self.page.wait_for_selector(f"h1:has-text('{title}')", timeout=60_000)
        self.page.wait_for_load_state("load")  # with its style
        self.number += 1
        name = f"{self.number:02d}-{'-'.join(title.lower().split())[:24]}"
        page, size = self.page, self.page.viewport_size
        assert size is not None
        found = [*small_targets(page), *unlabelled(page)]
        if AXE.is_file():
            found += faults_of_access(page, AXE.read_text())
        page.emulate_media(color_scheme="light")
        for width in (390, size["width"]):
            page.set_viewport_size({"width": width, "height": size["height"]})
            self.shot(f"study-{name}-{width}-light")
            if SHOTS:
                page.emulate_media(color_scheme="dark")
                self.shot(f"study-{name}-{width}-dark")
                page.emulate_media(color_scheme="light")
        if found:
            self.faults[name] = found

    def send(self, title: str) -> None:
        """Press Enter, and wait for the next page."""
        self.page.keyboard.press("Enter")
        self.see(title)


def up_to_the_plan(visit: Member, app: App, sites: Path, plan: Plan) -> None:
    """Choose the identity, and compare the digest."""
    page = visit.page
    enter(page, app)
    visit.reach("form[action='/study'] button")
    visit.send("Your identity")
    visit.write("key", str(sites / "north/north.identity.toml"))
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Say on the telephone")
    visit.see("Your identity")
    visit.reach("a.button")
    visit.send("Which study?")
    visit.write("plan", str(sites / "plan.toml"))
    heard = plan.digest.hex()
    visit.write("digest", f"{heard[:-1]}{'0' if heard[-1] != '0' else '1'}")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=one digit differs, digit 64")
    assert heard not in page.content()
    assert in_groups(heard) not in page.content()
    visit.see("Which study?")
    visit.write("digest", in_groups(heard))
    visit.send("Readmissions 2026")


def up_to_the_rehearsal(visit: Member, sites: Path) -> None:
    """Accept the plan, note the approval, and choose the records."""
    page = visit.page
    visit.write("dataset", "north-2026")
    visit.reach("#is_new")
    page.keyboard.press("Space")
    visit.send("Who approves it?")
    visit.reach("a[href$='agreement']")
    visit.send("Agreement: Readmissions 2026")
    page.go_back()
    visit.write("by", "Dr. A. Keeper, data protection officer")
    visit.write("on", "2026-11-27")
    visit.write("document", "DPO 17/26")
    visit.send("Your records for this study")
    visit.write("path", str(sites / "north.csv"))
    visit.reach("input[name=header]")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Columns that the plan asks for")
    for at, column in enumerate(COLUMNS):
        page.select_option(f"#column{at}", column)
    page.select_option("#id", "patient_id")
    visit.write("words", "n/a, -")
    visit.see("Your records for this study")
    visit.reach("form[action$='columns'] button")
    visit.send("Rehearsal")
    visit.reach("form[action$='rehearse'] button")
    page.keyboard.press("Enter")
    page.click("a:has-text('Continue')", timeout=60_000)
    page.wait_for_selector("text=For you only")
    visit.see("Rehearsal")


def test_a_study_goes_on_after_app_and_process_were_killed_and_says_what_changed_later(
    browser: "Browser", app: App, sites: Path, tmp_path: Path
) -> None:
    plan = Plan.from_toml((sites / "plan.toml").read_text())
    others = [started(sites / "server", "serve", "../plan.toml", "--key", "server.identity.toml")]
    try:
        visit = Member(browser, app)
        page = visit.page
        up_to_the_plan(visit, app, sites, plan)
        up_to_the_rehearsal(visit, sites)
        visit.reach("form[action$='start'] button")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Waiting for", timeout=60_000)
        live = json.loads((sites / "north/north.live.json").read_text())
        os.kill(live["pid"], signal.SIGKILL)
        app.kill()
        page.wait_for_selector("text=The app does not answer")
        visit.number = 20
        visit.see("Readmissions 2026")
        with running(tmp_path) as later:
            visit = Member(browser, later)
            page, visit.number = visit.page, 30
            enter(page, later)
            visit.see("What would you like to do?")
            assert page.is_visible("text=you are awaited") or page.is_visible(
                "text=waiting for you"
            )
            page.click("text=Readmissions 2026")
            visit.see("Readmissions 2026 is waiting")
            visit.reach("form[action$='go-on'] button")
            page.keyboard.press("Enter")
            others += [joining(sites, name, plan.digest.hex()) for name in ("south", "east")]
            page.wait_for_selector("h1:text-is('Readmissions 2026')", timeout=60_000)
            page.click("text=See how it ended", timeout=90_000)
            visit.see("Readmissions 2026: the result")
            assert len(HoldersLedger(tmp_path / "ledger.store").history().runs) == 1
            renewed(sites)
            page.goto(later.address)
            page.click("text=Take part in a study with others")
            page.click("text=Use this identity")
            page.click("text=I have the plan")
            page.fill("#plan", str(sites / "renewed.toml"))
            page.fill("#digest", Plan.from_toml((sites / "renewed.toml").read_text()).digest.hex())
            page.click("button:has-text('Continue')")
            page.wait_for_selector("text=What is different from the plan that you accepted")
            visit.see("Readmissions 2026")
            page.fill("#dataset", "north-2026")
            page.click("button:has-text('Go on to the approval')")
            page.wait_for_selector("text=Your ledger would refuse this")
            visit.see("Readmissions 2026")
            assert visit.faults == {}
    finally:
        for process in others:
            with suppress(OSError):
                process.terminate()
            process.wait(60)


def renewed(sites: Path) -> None:
    """Renew the plan with another time, and set a limit that one more run would exceed."""
    new = ["plan", "renew", "plan.toml", "--round-timeout", "7200", "--out", "renewed.toml"]
    assert started(sites, *new).wait(60) == 0
    persons = Neighbours(NeighboringRelation.ADD_OR_REMOVE_ONE, "patient", 1)
    limit = UnitLimitSet(dataset="north-2026", epsilon=1.2, delta=1e-5, speaks_of=persons)
    with HoldersLedger(sites.parent / "ledger.store").opened() as store:
        store.append([limit])


def test_an_organisation_takes_part_in_a_study_by_keyboard_alone_and_is_charged_once(
    browser: "Browser", app: App, sites: Path, tmp_path: Path
) -> None:
    plan = Plan.from_toml((sites / "plan.toml").read_text())
    others = [started(sites / "server", "serve", "../plan.toml", "--key", "server.identity.toml")]
    try:
        visit = Member(browser, app)
        page = visit.page
        up_to_the_plan(visit, app, sites, plan)
        up_to_the_rehearsal(visit, sites)
        ledger = HoldersLedger(tmp_path / "ledger.store")
        assert not ledger.is_there()
        assert not (sites / "north/north.store").exists()
        visit.reach("form[action$='start'] button")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Waiting for", timeout=60_000)
        visit.see("Readmissions 2026")
        app_page = page.url
        others += [joining(sites, name, plan.digest.hex()) for name in ("south", "east")]
        page.click("text=See how it ended", timeout=90_000)
        visit.see("Readmissions 2026: the result")
        folder = Path(page.inner_text("main p code"))
        assert (folder / "privacy.json").is_file()
        page.goto(app.address)
        visit.see("What would you like to do?")
        assert len(ledger.history().runs) == 1
        page.goto(app_page)
        page.click("text=Label my records")
        page.wait_for_selector("text=NOT private")
        assert (sites / "north-groups-NOT-PRIVATE.csv").exists()
        assert visit.faults == {}
        visit.close()
    finally:
        for process in others:
            with suppress(OSError):
                process.terminate()
            process.wait(60)
