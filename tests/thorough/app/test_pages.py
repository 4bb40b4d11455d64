"""Pages of the app: faults at their fields, the recipe of the answers, and what may be spent."""

import csv
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra app")

from app_pages import Guest, Page
from app_process import write_patients
from clone import ROOT
from fastlloyd.app.answers import request
from fastlloyd.app.children import RunLook
from fastlloyd.app.door import IDLE_SECONDS
from fastlloyd.app.run_state import RunState
from fastlloyd.dp.neighboring import NeighboringRelation, Neighbours
from fastlloyd.federation.holder import HoldersLedger
from fastlloyd.federation.store.events import LimitSet, UnitLimitSet

PROTECT = {"unit": "record", "n_records": "5000", "dataset": "ward-7", "is_new": "yes"}
BOUNDS = {
    "lower0": "0",
    "upper0": "110",
    "lower1": "10",
    "upper1": "60",
    "lower2": "0.2",
    "upper2": "15",
}
COLUMNS = ["age", "bmi", "creatinine"]


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    write_patients(tmp_path / "patients.csv", 300)
    return Guest(tmp_path)


def chosen(guest: Guest) -> str:
    """Begin a draft with a file."""
    at = guest.begin()
    path = str(guest.site.results / "patients.csv")
    assert "Who is protected?" in guest.answer(at, "file", path=path, header="yes").text
    return at


def confirmed(guest: Guest, **changed: str) -> tuple[str, Page]:
    """Answer everything. Return the beginning of the paths, and the last page."""
    at = chosen(guest)
    guest.answer(at, "protect", chosen=COLUMNS, **PROTECT | changed)
    guest.answer(at, "bounds", **BOUNDS)
    page = guest.answer(at, "privacy", k="3", epsilon="1", go="on")
    assert "Check and start" in page.text, page.summed_up
    return at, page


def shown(page: Page) -> dict[str, str]:
    """What the last page sends back."""
    before, _, rest = page.text.partition('name="shown" value="')
    assert before
    folder = page.text.partition('id="out" name="out" value="')[2].partition('"')[0]
    return {"shown": rest.partition('"')[0], "out": folder, "purpose": ""}


def test_all_faults_of_a_page_are_told_at_once_and_at_their_fields(guest: Guest) -> None:
    at = guest.begin()
    page = guest.answer(at, "file")
    assert page.faults.keys() == {"path", "header"}
    at = chosen(guest)
    page = guest.answer(at, "protect", unit="person", id="", who="patients", n_records="many")
    assert page.faults.keys() == {"id", "who", "n_records", "chosen", "dataset"}
    assert len(page.summed_up) == 5
    page = guest.answer(at, "protect", chosen=COLUMNS, **PROTECT | {"is_new": ""})
    assert page.faults.keys() == {"is_new"}
    guest.answer(at, "protect", chosen=COLUMNS, **PROTECT)
    page = guest.answer(at, "bounds", **BOUNDS | {"lower0": "1,500", "upper1": "", "lower2": "16"})
    assert page.faults.keys() == {"lower0", "upper1", "lower2"}
    assert "1500" in page.faults["lower0"]
    page = guest.answer(at, "bounds", **BOUNDS | {"lower0": "-1", "scale0": "log"})
    assert page.faults.keys() <= {"lower0", "scale0"}
    assert page.faults
    guest.answer(at, "bounds", **BOUNDS)
    assert guest.answer(at, "privacy", k="none").faults.keys() == {"k"}
    page = guest.answer(at, "privacy", k="3", go="on")
    assert page.faults.keys() == {"epsilon"}
    assert "checked" not in page.text  # nothing is chosen for anybody


def test_bounds_stay_with_their_columns_when_another_column_goes(guest: Guest) -> None:
    at, page = confirmed(guest)
    assert "creatinine: a number from 0.2 to 15" in page.text
    page = guest.answer(at, "protect", chosen=["bmi", "creatinine"], **PROTECT)
    given = {
        field: page.text.partition(f'name="{field}" value="')[2].partition('"')[0]
        for field in ("lower0", "upper0", "lower1", "upper1")
    }
    assert given == {"lower0": "10", "upper0": "60", "lower1": "0.2", "upper1": "15"}


def test_an_empty_cell_and_a_word_have_no_meaning_before_somebody_says_so(guest: Guest) -> None:
    path = guest.site.results / "gaps.csv"
    path.write_text("age;size\n" + ("41,5;1\n" * 30 + ";2\nk.A.;3\n") * 4)
    at = guest.begin()
    guest.answer(at, "file", path=str(path), header="yes")
    guest.answer(at, "protect", chosen=["age", "size"], **PROTECT)
    ends = {"lower0": "0", "upper0": "110", "lower1": "0", "upper1": "5"}
    assert guest.answer(at, "bounds", **ends).faults.keys() == {"missing0", "words"}
    page = guest.answer(at, "bounds", missing0="drop", words="k.A.", **ends | {"upper0": "1.000"})
    assert page.faults.keys() == {"upper0"}
    assert "1000" in page.faults["upper0"]
    page = guest.answer(at, "bounds", missing0="drop", words="k.A.", **ends)
    assert page.faults == {}
    given = {"usual": ["k.A.", "-", "41,5"], "words": "keine, k.A."}  # boxes are of usual words
    page = guest.answer(at, "bounds", missing0="drop", **given, **ends)
    assert page.faults == {}
    draft = guest.site.drafts.load(at.rpartition("/")[2])
    assert draft["missing_words"] == ["k.A.", "-", "keine"]
    page = guest.get(f"{at}/bounds")
    assert page.text.count("checked") == 2
    assert 'value="keine"' in page.text


def test_an_unexpected_error_shows_its_kind_and_not_its_message(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("a cell with 17.25")

    monkeypatch.setattr("fastlloyd.app.pages.protect.columns", fail)
    at = guest.begin()
    path = str(guest.site.results / "patients.csv")
    page = guest.answer(at, "file", path=path, header="yes")
    assert page.status == 500
    assert "RuntimeError" in page.text
    assert "17.25" not in page.text


def value(page: Page, field: str) -> str:
    """Return the text in a field."""
    return page.text.partition(f'name="{field}" value="')[2].partition('"')[0]


def test_a_wrong_epsilon_is_told_at_its_field_and_the_ladder_stays(guest: Guest) -> None:
    at, _ = confirmed(guest)
    for wrong in ("0", "-1", "1,500", "much"):
        page = guest.answer(at, "privacy", k="3", other=wrong, go="look")
        assert page.faults.keys() == {"other"}
        assert 'class="ladder' in page.text
        assert value(page, "other") == wrong
        assert 'value="on"' in page.text


def test_an_epsilon_that_was_typed_gets_its_row_before_it_can_be_spent(guest: Guest) -> None:
    at = chosen(guest)
    guest.answer(at, "protect", chosen=COLUMNS, **PROTECT)
    guest.answer(at, "bounds", **BOUNDS)
    page = guest.answer(at, "privacy", k="3", other="1,5", go="on")
    assert page.faults.keys() == {"epsilon"}
    row = page.text.partition('value="1.5"')[2].partition(">")[0]
    assert "checked" in row
    typed = {"other": "1,5", "added": value(page, "added")}
    page = guest.answer(at, "privacy", k="3", epsilon="1.5", go="on", **typed)
    assert "Check and start" in page.text
    page = guest.answer(at, "privacy", k="3", epsilon="1", go="on", **typed)
    assert "Epsilon 1 on the data set" in page.text
    page = guest.answer(at, "privacy", k="3", epsilon="1", other="2.5", go="on", added="1.5")
    assert page.faults.keys() == {"epsilon"}
    assert "checked" in page.text.partition('value="1" id="epsilon-3"')[2].partition(">")[0]


def test_choices_that_are_rarely_meant_are_remarked(guest: Guest) -> None:
    at, page = confirmed(guest)
    assert 'class="warn"' not in page.text
    page = guest.answer(at, "privacy", k="1", other="1e9", go="look")
    assert page.text.count('class="warn"') == 2
    fields = {"other": "1e9", "added": "1e+09", "epsilon": "1e+09"}
    page = guest.answer(at, "privacy", k="1", go="on", **fields)
    assert page.text.count('class="warn"') == 2


def test_back_keeps_what_was_typed_and_lets_nothing_unchecked_through(guest: Guest) -> None:
    at, page = confirmed(guest)
    given = shown(page) | {"proposed": value(page, "proposed"), "go": "back"}
    page = guest.answer(at, "confirm", **given | {"purpose": "for the ward"})
    assert "How many groups" in page.text
    assert value(guest.get(f"{at}/confirm"), "purpose") == "for the ward"
    page = guest.answer(at, "privacy", k="many", other="x", go="back")
    assert "How small" in page.text
    assert guest.get(f"{at}/confirm").headers["location"].endswith("/privacy")
    page = guest.get(f"{at}/privacy")
    assert (value(page, "k"), value(page, "other")) == ("many", "x")
    page = guest.answer(at, "bounds", **BOUNDS | {"lower0": "none", "go": "back"})
    assert "Who is protected?" in page.text
    fields = PROTECT | {"chosen": ["bmi", "age"], "n_records": "?", "go": "back"}
    page = guest.answer(at, "protect", **fields)
    assert "Which records?" in page.text
    page = guest.get(f"{at}/protect")
    assert value(page, "n_records") == "?"
    guest.answer(at, "protect", **PROTECT, chosen=["age", "creatinine"])
    page = guest.get(f"{at}/bounds")
    assert [value(page, each) for each in ("lower0", "upper0", "lower1")] == ["none", "110", "0.2"]
    page = guest.answer(at, "file", path="/elsewhere", header="no", go="back")
    assert "What would you like to do?" in page.text
    page = guest.get(f"{at}/file")
    assert value(page, "path") == "/elsewhere"
    assert at in guest.get("/").text


def test_a_choice_in_the_list_of_files_keeps_the_answer_about_the_first_line(guest: Guest) -> None:
    at, path = guest.begin(), str(guest.site.results / "patients.csv")
    page = guest.answer(at, "folder", header="yes", path="", chosen=path)
    assert value(page, "path") == path
    assert 'value="yes" id="header" checked' in page.text
    page = guest.answer(at, "folder", header="no", path=path, folder="/")
    assert value(page, "path") == path
    assert 'value="no" id="header-1" checked' in page.text


def test_counting_keeps_the_folder_and_the_purpose(guest: Guest) -> None:
    at, page = confirmed(guest)
    folder = str(guest.site.results / "mine")
    page = guest.answer(at, "count", **shown(page) | {"out": folder, "purpose": "for the ward"})
    assert "Exact numbers" in page.text
    assert (value(page, "out"), value(page, "purpose")) == (folder, "for the ward")


def test_the_expected_number_plans_the_run(guest: Guest) -> None:
    at = chosen(guest)
    for wrong in ("1.500", "many", "0", "5001"):
        page = guest.answer(at, "protect", chosen=COLUMNS, n_expected=wrong, **PROTECT)
        assert page.faults.keys() == {"n_expected"}
    guest.answer(at, "protect", chosen=COLUMNS, n_expected="300", **PROTECT)
    guest.answer(at, "bounds", **BOUNDS)
    few = guest.answer(at, "privacy", k="3", go="look")
    page = guest.answer(at, "privacy", k="3", epsilon="1", go="on")
    assert "about 300 expected" in page.text
    assert "n_expected = 300" in guest.get(f"{at}/recipe.toml").text
    guest.answer(at, "protect", chosen=COLUMNS, **PROTECT)
    assert few.text.count("mostly noise") > guest.get(f"{at}/privacy").text.count("mostly noise")


def test_a_gap_can_be_a_number_and_a_column_can_have_a_weight(guest: Guest) -> None:
    at = chosen(guest)
    guest.answer(at, "protect", chosen=COLUMNS, **PROTECT)
    wrong = {"gap0": "1", "missing1": "number", "weight0": "0", "weight1": "1,5"}
    page = guest.answer(at, "bounds", **BOUNDS | wrong)
    assert page.faults.keys() == {"gap0", "gap1", "weight0", "weight1"}
    right = {"missing2": "number", "gap2": "1,0", "weight0": "0,2"}
    page = guest.answer(at, "bounds", **BOUNDS | right)
    assert "How many groups" in page.text
    features = guest.site.drafts.load(at.rpartition("/")[2])["features"]
    assert features["creatinine"]["missing"] == 1.0
    assert features["age"]["weight"] == 0.2
    page = guest.answer(at, "bounds", **BOUNDS | {"missing2": "number", "gap2": "99"})
    assert page.faults.keys() <= {"gap2", "missing2"}


def test_no_step_can_be_left_out(guest: Guest) -> None:
    at = guest.begin()
    for step in ("protect", "bounds", "privacy", "confirm"):
        assert guest.get(f"{at}/{step}").headers["location"] == f"{at}/file"
    assert guest.post(f"{at}/confirm").headers["location"] == f"{at}/file"
    at = chosen(guest)
    assert guest.post(f"{at}/confirm").headers["location"] == f"{at}/protect"
    assert guest.site.runs.names() == []


def test_the_ladder_marks_the_smallest_clear_choice_and_ends_at_the_limit(guest: Guest) -> None:
    ledger = HoldersLedger(guest.site.results / "l.store")
    with ledger.opened(new=True) as store:
        store.append([LimitSet(dataset="ward-7", epsilon=1.5, delta=1e-6)])
    at = chosen(guest)
    guest.answer(at, "protect", chosen=COLUMNS, **PROTECT | {"is_new": ""})
    guest.answer(at, "bounds", **BOUNDS)
    page = guest.answer(at, "privacy", k="3", go="look")
    assert page.text.count("smallest with a clear picture") <= 1
    assert page.text.count("your ledger refuses this") == 2  # 2 and 5
    assert page.text.count(" disabled") == 2
    assert "for one more run" in page.text
    assert "Check and start" not in guest.answer(at, "privacy", k="3", epsilon="", go="on").text


def test_another_unit_than_that_of_earlier_runs_is_asked_about(guest: Guest) -> None:
    ledger = HoldersLedger(guest.site.results / "l.store")
    with ledger.opened(new=True) as store:
        speaks_of = Neighbours(NeighboringRelation.ADD_OR_REMOVE_ONE, "patient", 1)
        limit = UnitLimitSet(dataset="ward-7", epsilon=3.0, delta=1e-6, speaks_of=speaks_of)
        store.append([limit])
    at = chosen(guest)
    fields = PROTECT | {"unit": "person", "id": "patient_id", "who": "case", "chosen": COLUMNS}
    page = guest.answer(at, "protect", **fields)
    assert page.faults.keys() == {"who"}
    assert "is_new_unit" in page.text
    page = guest.answer(at, "protect", is_new_unit="yes", **fields)
    assert "How small" in page.text
    page = guest.answer(at, "protect", **fields | {"who": "patient"})
    assert "How small" in page.text
    fields |= {"unit": "record"}
    page = guest.answer(at, "protect", **fields)
    assert page.faults.keys() == {"is_new_unit"}
    page = guest.answer(at, "protect", is_new_unit="yes", **fields)
    assert "How small" in page.text


def test_what_is_confirmed_is_what_is_started_and_only_once(guest: Guest) -> None:
    started = list[Any]()
    guest.site.runs.start = started.append  # type: ignore[method-assign,assignment]
    at, page = confirmed(guest)
    sent = shown(page)
    assert guest.answer(at, "confirm", **sent | {"shown": "0" * 64}).summed_up
    assert guest.answer(at, "confirm", **sent | {"out": "result"}).faults.keys() == {"out"}
    taken = guest.site.results / "taken"
    taken.mkdir()
    (taken / "x").write_text("")
    assert guest.answer(at, "confirm", **sent | {"out": str(taken)}).faults.keys() == {"out"}
    assert started == []
    assert guest.post(f"{at}/confirm", **sent).status == 303
    (file,) = started
    assert file.run_id == at.rpartition("/")[2]
    assert file.records == str(guest.site.results / "patients.csv")
    assert file.out == sent["out"]
    assert "epsilon = 1.0" in file.recipe
    assert file.new_dataset


def test_after_a_long_pause_the_code_is_asked_for_before_anything_is_spent(guest: Guest) -> None:
    started = list[Any]()
    guest.site.runs.start = started.append  # type: ignore[method-assign,assignment]
    at, page = confirmed(guest)
    guest.now += IDLE_SECONDS
    page = guest.get(f"{at}/confirm")
    refused = guest.post(f"{at}/confirm", **shown(page))
    assert refused.status == 403
    assert "Are you still there?" in refused.text
    assert guest.said[0] not in refused.text
    assert started == []
    guest.enter(guest.said[0])
    assert guest.post(f"{at}/confirm", **shown(page)).status == 303
    assert len(started) == 1


def test_the_owner_sees_exact_counts_once_and_they_are_kept_nowhere(guest: Guest) -> None:
    at, _ = confirmed(guest)
    page = guest.post(f"{at}/count")
    assert "300 rows" in page.text
    assert "outside the bounds" in page.text
    kept = b"".join(each.read_bytes() for each in guest.site.drafts.folder.iterdir())
    assert b"300 rows" not in kept
    assert b"outside" not in kept


def test_the_owner_of_a_result_hears_of_clipped_values_and_no_file_does(guest: Guest) -> None:
    at = chosen(guest)
    guest.answer(at, "protect", chosen=COLUMNS, **PROTECT)
    guest.answer(at, "bounds", **BOUNDS | {"upper0": "50"})
    page = guest.answer(at, "privacy", k="2", epsilon="2", go="on")
    name = at.rpartition("/")[2]
    file = request(name, guest.site.drafts.load(name), shown(page)["out"], None)
    Path(file.out).mkdir()
    look = RunLook(RunState.DONE, file)
    guest.site.runs._ended[name] = look
    before = {each: each.stat() for each in guest.site.results.rglob("*")}
    page = guest.get(f"/runs/{name}")
    share = page.text.partition("% of the values of age")[0].rpartition(">")[2]
    assert 40 < float(share) < 80
    assert "of the values of bmi" not in page.text
    assert page.headers["cache-control"] == "no-store"
    assert {each: each.stat() for each in guest.site.results.rglob("*")}.keys() == before.keys()
    (guest.site.results / "patients.csv").unlink()
    assert "% of the values of age" in guest.get(f"/runs/{name}").text
    guest.site.counts.clear()
    assert "were not counted" in guest.get(f"/runs/{name}").text


def test_names_of_columns_and_files_cannot_become_markup(tmp_path: Path) -> None:
    file = tmp_path / "<script>alert(1)&.csv"
    rows = "".join(f"{n},{n % 7}\n" for n in range(60))
    file.write_text('"<img src=x onerror=alert(1)>","a&b"\n' + rows)
    guest = Guest(tmp_path)
    at = guest.begin()
    page = guest.get(f"{at}/file")
    assert "<script>alert" not in page.text
    page = guest.answer(at, "file", path=str(file), header="yes")
    assert "&lt;img src=x" in page.text
    assert "<img" not in page.text


def test_the_table_of_a_hospital_is_read_with_its_commas_words_and_limits(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, ROOT / "examples/hospital/make_table.py"], cwd=tmp_path, check=True
    )
    guest = Guest(tmp_path)
    at = guest.begin()
    page = guest.answer(at, "file", path=str(tmp_path / "hospital.csv"), header="yes")
    with (tmp_path / "hospital.csv").open(encoding="cp1252", newline="") as opened:
        names = next(csv.reader(opened, delimiter=";"))
    assert all(name in page.text for name in names), page.summed_up
    used = ["Alter", "Kreatinin (mg/dl)", "CRP (mg/l)", "Geschlecht"]
    fields = PROTECT | {"unit": "person", "id": "Patienten-ID", "who": "patient"}
    guest.answer(at, "protect", chosen=used, **fields)
    order = [name for name in names if name in used]
    given = {"rows": "mean", "words": "k.A., -"}
    ends = {"Alter": ("0", "110"), "Kreatinin (mg/dl)": ("0,2", "15"), "CRP (mg/l)": ("0,3", "400")}
    for number, name in enumerate(order):
        if name in ends:
            given |= {f"lower{number}": ends[name][0], f"upper{number}": ends[name][1]}
            given |= {f"missing{number}": "middle", f"below{number}": "bound"}
        else:
            given |= {f"texts{number}": "m, w"}
    page = guest.answer(at, "bounds", **given)
    assert "How many groups" in page.text, page.summed_up
    page = guest.answer(at, "privacy", k="3", epsilon="1", go="on")
    assert "Check and start" in page.text, page.summed_up
    page = guest.post(f"{at}/count")
    assert "rows. Exact numbers" in page.text, page.text
    recipe = guest.get(f"{at}/recipe.toml").text
    assert "bounds = [\n    0.2,\n    15.0,\n]" in recipe
    assert 'missing_words = [\n    "k.A.",\n    "-",\n]' in recipe


def test_a_request_names_its_ledger_in_full_whatever_a_variable_says_later(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = list[Any]()
    guest.site.runs.start = started.append  # type: ignore[method-assign,assignment]
    object.__setattr__(guest.site, "ledger", None)
    monkeypatch.setenv("FASTLLOYD_LEDGER", str(guest.site.results / "first.store"))
    at, page = confirmed(guest)
    assert guest.post(f"{at}/confirm", **shown(page)).status == 303
    assert started[0].ledger == str(guest.site.results / "first.store")


@pytest.mark.parametrize("folder", ["/srv/a\0b", "/" + "a" * 300, "/srv/new/..", "//host/share/x"])
def test_a_path_that_cannot_be_a_new_folder_is_refused_at_its_field(
    guest: Guest, folder: str
) -> None:
    at, page = confirmed(guest)
    sent = shown(page) | {"out": folder}
    assert guest.answer(at, "confirm", **sent).faults.keys() == {"out"}
    assert guest.site.runs.names() == []


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are Unicode elsewhere")
def test_a_name_of_a_file_that_is_no_text_keeps_no_page_away(guest: Guest) -> None:
    (guest.site.results / os.fsdecode(b"caf\xe9.csv")).write_text("a,b\n")
    page = guest.get(f"{guest.begin()}/file")
    assert page.status == 200
    assert "caf?.csv" in page.text


def test_labels_are_for_their_owner_alone_and_never_in_the_result(guest: Guest) -> None:
    at, page = confirmed(guest)
    sent = shown(page)
    run = guest.post(f"{at}/confirm", **sent).headers["location"]
    while "The run is under way" in guest.get(run).text:
        threading.Event().wait(0.1)
    for inside in ("names.toml", "more/labels.csv"):
        answer = guest.post(f"{run}/labels", target=f"{sent['out']}/{inside}")
        assert answer.faults.keys() == {"target"}
        assert not Path(f"{sent['out']}/{inside}").exists()
    target = guest.site.results / "labels.csv"
    assert "NOT private" in guest.post(f"{run}/labels", target=str(target)).text
    assert target.stat().st_mode & 0o077 == 0
    target.write_text("mine")
    again = guest.post(f"{run}/labels", target=str(target))
    assert again.faults.keys() == {"target"}
    assert target.read_text() == "mine"


def test_a_limit_is_set_before_the_first_run_and_by_no_look_at_the_page(guest: Guest) -> None:
    guest.get("/ledger")
    ledger = HoldersLedger(guest.site.ledger or Path())
    assert not ledger.is_there()
    page = guest.post("/ledger", dataset="ward-7", epsilon="0", delta="1,500")
    assert page.faults.keys() == {"is_new", "epsilon", "delta"}
    given = {"dataset": "ward-7", "is_new": "yes", "epsilon": "1,5", "delta": "1e-6"}
    page = guest.post("/ledger", **given, unit="patients of mine")
    assert len(page.summed_up) == 1
    assert "is set" in guest.post("/ledger", **given).text
    (limit,) = ledger.history().limits_on("ward-7").values()
    assert (limit.epsilon, limit.delta) == (1.5, 1e-6)
    at, page = confirmed(guest, is_new="")
    guest.post(f"{at}/confirm", **shown(page))
    while "under way" in guest.get(f"/runs/{at.rpartition('/')[2]}").text:
        threading.Event().wait(0.1)
    assert "has runs" in guest.post("/ledger", **given).faults["dataset"]


def test_the_made_up_table_leads_to_a_clear_choice_and_no_file_is_replaced(guest: Guest) -> None:
    assert "Try it with made-up records" in guest.get("/").text
    file = guest.site.results / "made-up-visits.csv"
    at = guest.post("/example").headers["location"].removesuffix("/file")
    assert file.stat().st_mode & 0o077 == 0
    before = file.read_bytes()
    assert str(file) in guest.get(f"{at}/file").text
    guest.answer(at, "file", path=str(file), header="yes")
    columns = ("age", "days", "medicines")
    guest.answer(at, "protect", chosen=columns, **PROTECT | {"n_records": "1000"})
    ends = ((0, 110), (0, 60), (0, 30))
    bounds = {
        f"{end}{n}": str(value)
        for n, pair in enumerate(ends)
        for end, value in zip(("lower", "upper"), pair, strict=True)
    }
    guest.answer(at, "bounds", **bounds)
    page = guest.answer(at, "privacy", k="3")
    assert "smallest with a clear picture" in page.text, page.summed_up
    assert guest.post("/example").headers["location"] != f"{at}/file"
    assert file.read_bytes() == before


def test_a_made_up_table_that_cannot_be_written_is_told_in_a_sentence(guest: Guest) -> None:
    target = guest.site.results / "made-up-visits.csv"
    target.symlink_to(guest.site.results / "none" / "x.csv")
    page = guest.post("/example")
    assert page.status < 500
    assert "made-up-visits.csv" in page.text
    assert target.is_symlink()
