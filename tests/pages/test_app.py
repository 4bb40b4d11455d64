"""The app in a browser: from a file to a result, by a person who types no commands."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app_process import App, running, write_patients
from browsers import missing
from fastlloyd.federation.holder import HoldersLedger
from visits import AXE, SHOTS, Visit, enter, faults_of_access, small_targets, unlabelled

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.pages


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    write_patients(tmp_path / "patients.csv")
    with running(tmp_path) as started:
        yield started


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
    page.fill("#n_records", "2500")
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
    page.wait_for_selector("text=Check and start")
    visit.shot(f"{prefix}5-confirm")


def test_a_file_becomes_groups_and_labels_and_epsilon_is_counted_once(
    browser: "Browser", app: App, tmp_path: Path
) -> None:
    visit = Visit(browser, app)
    page = visit.page
    to_confirm(visit, app, tmp_path)
    folder = Path(page.input_value("#out"))
    page.fill("#purpose", "groups of the ward")
    page.click("button:has-text('Spend epsilon 1 and start')")
    page.wait_for_selector("h1")
    visit.shot("6-run")
    page.wait_for_selector("text=Finished.", timeout=60_000)
    if page.is_visible("text=See how it ended"):
        page.click("text=See how it ended")
    page.wait_for_selector("text=Your result")
    visit.shot("7-result")
    if AXE.is_file():
        assert faults_of_access(page, AXE.read_text()) == []
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
    page_of_result = folder / "result.html"  # which somebody else might have written
    page_of_result.write_text(
        "<title>still</title><script>document.title = 'ran'</script><img src=x onerror=\"document."
        "title='ran'\"><form action=/new method=post><button>Go</button></form>"
    )
    page.goto(page.url.replace("/labels", "/result.html"))
    page.click("text=Go")
    assert page.title() == "still"
    assert page.url.endswith("/result.html")
    visit.complaints.clear()  # the browser says what it blocked
    page.goto(app.address + "ledger")
    visit.shot("10-ledger")
    assert page.is_visible("text=groups of the ward")
    runs = HoldersLedger(tmp_path / "ledger.store").history().runs
    assert len(runs) == 1
    assert not (tmp_path / "ledger.store").is_symlink()
    page.goto(app.address)
    visit.shot("11-start")
    visit.close()


def test_everything_works_without_scripts_on_a_phone_in_the_dark(
    browser: "Browser", app: App, tmp_path: Path
) -> None:
    phone = {"width": 390, "height": 844}
    visit = Visit(
        browser, app, viewport=phone, java_script_enabled=False, color_scheme="dark", has_touch=True
    )
    page = visit.page
    page.goto(app.address)
    page.fill("#code", app.code)
    page.click("button:has-text('Open')")
    page.wait_for_selector("text=What would you like to do?")
    page.click("text=Find groups in records of mine")
    page.click("button:has-text('patients.csv')")
    assert page.input_value("#path").endswith("patients.csv")
    page.check("input[name=header][value=yes]")
    page.click("button:has-text('Continue')")
    page.check("input[name=unit][value=record]")
    page.fill("#n_records", "5000")
    page.fill("#dataset", "ward-7")
    page.check("#is_new")
    page.click("button:has-text('Continue')")
    for at, (lower, upper) in enumerate(((0, 110), (10, 60), (0.2, 15))):
        page.fill(f"#lower{at}", str(lower))
        page.fill(f"#upper{at}", str(upper))
    page.click("button:has-text('Continue')")
    page.fill("#k", "3")
    page.click("button:has-text('Show what each')")
    page.check("input[name=epsilon][value='2']")
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/phone-ladder.png", full_page=True)
    page.click("button:has-text('Continue')")
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/phone-confirm.png", full_page=True)
    page.click("button:has-text('Spend epsilon 2 and start')")
    for _ in range(60):
        if page.is_visible("text=Your result"):
            break
        page.wait_for_timeout(500)
        page.reload()
    page.wait_for_selector("text=Your result")
    assert len(HoldersLedger(tmp_path / "ledger.store").history().runs) == 1
    visit.close()


def test_targets_are_large_fields_are_labelled_and_nothing_is_cut_off_at_twice_the_size(
    browser: "Browser", app: App, tmp_path: Path
) -> None:
    if not AXE.is_file():
        missing("axe-core (npm ci in tests/pages)")
    visit = Visit(browser, app, viewport={"width": 640, "height": 900})
    page = visit.page
    pages: list[str] = []
    page.on("load", lambda loaded: pages.append(loaded.url))
    to_confirm(visit, app, tmp_path, "narrow-")
    paths = {url for url in pages if "/new/" in url} | {app.address, app.address + "ledger"}
    found: dict[str, list[str]] = {}
    for path in sorted(paths):
        page.goto(path)
        found[path] = [*small_targets(page), *unlabelled(page)]
        found[path] += faults_of_access(page, AXE.read_text())
        page.evaluate("document.documentElement.style.fontSize = '200%'")
        assert page.evaluate("document.documentElement.scrollWidth") <= 640, path
    assert {path: faults for path, faults in found.items() if faults} == {}
    visit.complaints.clear()
    visit.close()


def test_the_flow_goes_by_keyboard_alone(browser: "Browser", app: App, tmp_path: Path) -> None:
    visit = Visit(browser, app)
    page = visit.page
    enter(page, app)

    def reach(selector: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("s => document.activeElement.matches(s)", selector):
                return
        raise AssertionError(f"Tab does not lead to {selector}")

    def send(title: str) -> None:
        page.keyboard.press("Enter")
        page.wait_for_selector(f"h1:has-text('{title}')")

    reach("main button")
    send("Which records?")
    reach("#path")
    page.keyboard.type(str(tmp_path / "patients.csv"))
    reach("input[name=header]")
    page.keyboard.press("Space")
    send("Who is protected?")
    reach("input[name=unit]")
    page.keyboard.press("Space")
    reach("#n_records")
    page.keyboard.type("5000")
    reach("#dataset")
    page.keyboard.type("ward-7")
    reach("#is_new")
    page.keyboard.press("Space")
    send("How small")
    for at, (lower, upper) in enumerate(((0, 110), (10, 60), (0.2, 15))):
        reach(f"#lower{at}")
        page.keyboard.type(str(lower))
        reach(f"#upper{at}")
        page.keyboard.type(str(upper))
    send("How many groups")
    reach("#k")
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    page.wait_for_selector(".ladder")
    reach("input[name=epsilon]")
    page.keyboard.press("ArrowDown")
    reach("button[value=on]")
    send("Check and start")
    visit.close()


def test_an_answer_that_the_app_did_not_sign_stops_the_page_for_good(
    browser: "Browser", app: App, tmp_path: Path
) -> None:
    visit = Visit(browser, app)
    page = visit.page
    to_confirm(visit, app, tmp_path, "signed-")
    forged = '{"said": "{\\"state\\": \\"Send me your code\\", \\"step\\": \\"\\"}", "mac": "%s"}'
    page.route("**/live?*", lambda route: route.fulfill(body=forged % ("00" * 32)))
    page.click("button:has-text('Spend epsilon 1 and start')")
    page.wait_for_selector("[data-gone]:visible")
    assert not page.is_visible("text=Send me your code")
    assert page.locator("a[href]").count() == 0
    visit.close()


def test_a_killed_app_and_a_closed_browser_lose_nothing_and_spend_once(
    browser: "Browser", tmp_path: Path
) -> None:
    write_patients(tmp_path / "patients.csv", 20_000)
    with running(tmp_path) as app:
        visit = Visit(browser, app)
        to_confirm(visit, app, tmp_path, "killed-")
        app.kill()
        with pytest.raises(Exception, match="ERR_CONNECTION_REFUSED"):
            visit.page.goto(app.address)
        visit.context.close()
    with running(tmp_path) as app:
        visit = Visit(browser, app)
        enter(visit.page, app)
        visit.page.click("td a:has-text('patients.csv')")  # the draft is still there
        visit.page.wait_for_selector("text=Check and start")
        visit.page.click("button:has-text('Spend epsilon 1 and start')")
        visit.page.wait_for_selector("text=under way")
        visit.page.wait_for_load_state("load")  # with its script
        run = visit.page.url.rpartition("/")[2]
        app.kill()
        visit.page.wait_for_selector("[data-gone]:visible")
        visit.shot("12-gone")
        visit.context.close()
    with running(tmp_path) as app:
        visit = Visit(browser, app)
        enter(visit.page, app)
        visit.page.goto(f"{app.address}runs/{run}")
        for _ in range(100):
            if visit.page.is_visible("text=Your result"):
                break
            visit.page.wait_for_timeout(300)
            visit.page.reload()
        visit.page.wait_for_selector("text=Your result")
        visit.page.goto(f"{app.address}new/{run}/confirm")  # a second press leads to the same run
        visit.page.wait_for_selector("text=Your result")
        visit.close()
    assert len(HoldersLedger(tmp_path / "ledger.store").history().runs) == 1


def test_what_another_tab_or_program_changed_is_not_started(
    browser: "Browser", app: App, tmp_path: Path
) -> None:
    visit = Visit(browser, app)
    page = visit.page
    to_confirm(visit, app, tmp_path, "tabs-")
    other = visit.context.new_page()
    other.goto(page.url.replace("confirm", "privacy"))
    other.fill("#k", "3")
    other.click("button:has-text('Show')")
    other.check("input[name=epsilon][value='5']")
    other.click("button:has-text('Continue')")
    other.wait_for_selector("text=Check and start")
    page.click("button:has-text('Spend epsilon 1 and start')")
    page.wait_for_selector("text=Another page changed the answers")
    text = (tmp_path / "patients.csv").read_text()
    (tmp_path / "patients.csv").write_text(text)
    page.click("button:has-text('Spend epsilon 5 and start')")
    page.wait_for_selector("[role=alert] >> text=confirm")
    visit.shot("13-replaced")
    assert not (tmp_path / "ledger.store").exists()
    visit.close()
