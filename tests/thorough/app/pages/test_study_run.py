"""Pages of a part in a study: what is shown when, what is refused, and what a kill leaves."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra app")

from app_pages import Guest, Page
from fastlloyd.app.children import ChildRuns, RunLook
from fastlloyd.app.door import IDLE_SECONDS
from fastlloyd.app.errands import OVER, Errands
from fastlloyd.app.pages.rehearsal import request_of
from fastlloyd.app.run_state import RunState
from fastlloyd.app.studies import StudyLook
from fastlloyd.base.sealed_toml import in_groups
from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.holder import HoldersLedger
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.plan.design import renew
from fastlloyd.federation.store.events import LimitSet
from fastlloyd.federation.store.lock import Lock
from fastlloyd.jobs.approvals import approvals_path
from fastlloyd.jobs.join_file import id_of_run
from network_processes import SERVER, Site, cleared
from network_site import made  # noqa: F401 - a fixture

APPROVAL = {"by": "Dr. A. Keeper", "on": "2026-11-27", "document": "DPO 17/26"}
SECRET = "correct horse battery staple"  # noqa: S105 - of nobody


@pytest.fixture
def site(made: Path, tmp_path: Path) -> Iterator[Site]:  # noqa: F811
    with cleared(Site.make(made, tmp_path / "site")) as site:
        yield site


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Guest]:
    guest = Guest(tmp_path / "app-of-a")
    yield guest
    for child in guest.site.runs._children.values():
        child.kill()
        child.wait()


def waited(guest: Guest, at: str) -> None:
    """Wait until the errand of a draft or run is over."""
    name = at.rpartition("/")[2]
    for _ in range(1200):
        if (errand := guest.site.errands.of(name)) is None or errand.state == OVER:
            return
        threading.Event().wait(0.05)
    raise AssertionError("the errand does not end")


def until(happened: Callable[[], Any]) -> None:
    """Wait until it has happened."""
    for _ in range(1200):
        if happened():
            return
        threading.Event().wait(0.05)
    raise AssertionError("it does not happen")


def identified(guest: Guest, site: Site, name: str = "a") -> str:
    """Begin a study with an identity. Return the beginning of its paths."""
    at = guest.post("/study").headers["location"].removesuffix("/identity")
    page = guest.answer(at, "identity", key=str(site.folder / f"{name}.identity.toml"))
    assert "Say on the telephone" in page.text
    return at


def invited(guest: Guest, site: Site) -> str:
    """Answer up to the plan."""
    at = identified(guest, site)
    page = invitation(guest, at, site, in_groups(site.plan.digest.hex()))
    assert "In plain words" in page.text, page.summed_up
    return at


def invitation(guest: Guest, at: str, site: Site, digest: str) -> Page:
    return guest.answer(at, "invitation", plan=str(site.folder / "plan.toml"), digest=digest)


def rehearsed(guest: Guest, site: Site) -> tuple[str, Page]:
    """Answer everything, and rehearse. Return the beginning of the paths, and the last page."""
    at = invited(guest, site)
    guest.answer(at, "plan", dataset="patients-a", is_new="yes")
    guest.answer(at, "approval", **APPROVAL)
    guest.answer(at, "records", path=str(site.folder / "a.csv"), header="yes")
    guest.answer(at, "columns", words="")
    guest.post(f"{at}/rehearse")
    waited(guest, at)
    page = guest.get(f"{at}/rehearsal")
    assert "For you only" in page.text, page.summed_up
    return at, page


def shown(page: Page) -> dict[str, str]:
    """What the last page sends back."""
    before, _, rest = page.text.partition('name="shown" value="')
    assert before
    folder = page.text.partition('id="out" name="out" value="')[2].partition('"')[0]
    return {"shown": rest.partition('"')[0], "out": folder}


def run_of(site: Site) -> str:
    """The id of the part of client a in the ledger."""
    client = site.plan.client("a")

    class Member:
        signing_key = client.signing_key

    member: Any = Member
    return id_of_run(site.plan, member)


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_digest_is_shown_only_after_all_of_it_was_typed_as_heard(
    guest: Guest, site: Site
) -> None:
    at, heard = identified(guest, site), site.plan.digest.hex()
    client = site.plan.client("b")
    wrong = {
        "": "Type the digest",
        heard[:-1]: "one digit is missing",
        heard[:63] + ("0" if heard[63] != "0" else "1"): "one digit differs, digit 64",
        site.plan.run_id: "number of the run",
        client.fingerprint: "fingerprint of 'b'",
        "f" * 64: "another plan",
        "hello": "here are 5",
    }
    for digest, fragment in wrong.items():
        page = invitation(guest, at, site, digest)
        assert page.faults.keys() == {"digest"}
        assert fragment in page.faults["digest"]
        for form in (heard, in_groups(heard)):
            assert form not in page.text.replace(digest or "-", "")
        assert guest.get(f"{at}/plan").headers["location"].endswith("/invitation")
        assert guest.get(f"{at}/agreement").headers["location"].endswith("/invitation")
    page = invitation(guest, at, site, f" {in_groups(heard).upper()} ")
    assert "In plain words" in page.text


@pytest.mark.parametrize("field", ["plan", "key"])
def test_only_plain_files_of_this_machine_are_opened(
    guest: Guest, site: Site, tmp_path: Path, field: str
) -> None:
    fifo, large = tmp_path / "fifo", tmp_path / "large.toml"
    os.mkfifo(fifo)
    with large.open("wb") as sparse:
        sparse.truncate(1 << 32)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    at = identified(guest, site)
    for path in (
        *("", "plan.toml", "//server/plan.toml", "https://a.example/plan.toml", "/dev/zero"),
        *map(str, (fifo, tmp_path, tmp_path / "dangling", large)),
    ):
        step = "invitation" if field == "plan" else "identity"
        page = guest.answer(at, step, **{field: path, "digest": "0" * 64})
        assert page.faults.keys() == {field}, path


def test_no_page_changes_anything_by_being_looked_at(guest: Guest, site: Site) -> None:
    at, _ = rehearsed(guest, site)
    state = guest.site.studies.folder.parent
    before = tree(state), tree(site.folder)
    for step in ("identity", "invitation", "plan", "approval", "agreement", "records"):
        assert guest.get(f"{at}/{step}").status == 200
    assert guest.get(f"{at}/rehearsal").status == 200
    assert guest.get(f"{at}/wait").status == 303
    assert guest.get("/").status == 200
    assert (tree(state), tree(site.folder)) == before
    assert not HoldersLedger(guest.site.ledger or Path()).is_there()
    assert not (site.folder / "a.store").exists()


def test_back_keeps_what_was_typed_in_a_study_and_the_rehearsal_stays(
    guest: Guest, site: Site
) -> None:
    at, page = rehearsed(guest, site)
    mine = str(site.folder / "mine")
    page = guest.answer(at, "start", **shown(page) | {"out": mine, "go": "back"})
    assert "Your records for this study" in page.text
    page = guest.get(f"{at}/rehearsal")
    assert "Take part?" in page.text
    assert shown(page)["out"] == mine
    page = guest.answer(at, "columns", words="gone", go="back")
    assert "Who approves it?" in page.text
    assert 'value="gone"' in guest.get(f"{at}/records").text
    assert guest.get(f"{at}/rehearsal").headers["location"].endswith("/records")
    page = guest.answer(at, "approval", by="somebody", on="yesterday", document="", go="back")
    assert "In plain words" in page.text
    assert 'value="yesterday"' in guest.get(f"{at}/approval").text
    page = guest.answer(at, "plan", dataset="of mine", go="back")
    assert "Which study?" in page.text
    assert 'value="of mine"' in guest.get(f"{at}/plan").text
    page = guest.answer(at, "plan-folder", chosen=str(site.folder / "plan.toml"), digest="0a1b")
    assert 'value="0a1b"' in page.text
    assert guest.site.runs.names() == []


def test_a_step_is_reached_after_those_before_it(guest: Guest, site: Site) -> None:
    at = identified(guest, site)
    for step in ("plan", "approval", "agreement", "records", "rehearsal"):
        assert guest.get(f"{at}/{step}").headers["location"].endswith("/invitation")
    for step in ("plan", "approval", "records", "columns", "rehearse", "start"):
        assert guest.post(f"{at}/{step}").headers["location"].endswith("/invitation")
    other = guest.begin().rpartition("/")[2]  # a draft of the other flow is no study
    assert guest.get(f"/study/{other}/identity").status == 400


def test_the_page_says_what_the_ledger_would_refuse(guest: Guest, site: Site) -> None:
    ledger = HoldersLedger(guest.site.ledger or Path())
    ledger.named(DataSet(name="patients-a", is_new=True))
    with ledger.opened() as store:
        store.append([LimitSet(dataset="patients-a", epsilon=0.5, delta=1e-5)])
    at = invited(guest, site)
    assert "will refuse the plan" in guest.get(f"{at}/plan").text
    page = guest.answer(at, "plan", dataset="patients-a")
    assert "Your ledger would refuse this" in page.faults["dataset"]
    page = guest.answer(at, "plan", dataset="patients")
    assert page.faults.keys() == {"is_new"}
    assert "Who approves it?" in guest.answer(at, "plan", dataset="x", is_new="yes").text


def test_a_plan_is_compared_with_the_one_of_the_study_that_was_accepted_before(
    guest: Guest, site: Site
) -> None:
    at = invited(guest, site)
    assert "What is different" not in guest.get(f"{at}/plan").text
    guest.answer(at, "plan", dataset="patients-a", is_new="yes")
    guest.answer(at, "approval", **APPROVAL)
    plan = renew(site.plan, run_id=os.urandom(16), leave_out=(), members=())
    later = Site(site.folder, plan)
    (site.folder / "plan.toml").write_text(plan.to_toml())
    again = invited(guest, later)
    text = guest.get(f"{again}/plan").text
    assert "that you accepted on 2026-11-27" in text
    assert "Nothing but the number of the run." in text


def test_an_approval_has_a_name_and_a_day(guest: Guest, site: Site) -> None:
    at = invited(guest, site)
    guest.answer(at, "plan", dataset="patients-a", is_new="yes")
    page = guest.answer(at, "approval", by="", on="yesterday", document="x" * 201)
    assert page.faults.keys() == {"by", "on", "document"}
    text = guest.get(f"{at}/agreement").text
    assert in_groups(site.plan.digest.hex())[:39] in text
    assert "patients-a" in text


def test_columns_that_the_plan_asks_for_must_be_there(guest: Guest, site: Site) -> None:
    at = invited(guest, site)
    guest.answer(at, "plan", dataset="patients-a", is_new="yes")
    guest.answer(at, "approval", **APPROVAL)
    assert guest.answer(at, "records").faults.keys() == {"path", "header"}
    other = site.folder / "other.csv"
    other.write_text("age,doses\n1,7.25\n" + "2,3\n" * 20)
    page = guest.answer(at, "records", path=str(other), header="yes")
    assert "missing in your file" in page.text
    assert "7.25" not in page.text  # no cell is shown
    page = guest.answer(at, "columns")
    assert "'dose'" in page.faults["columns"]


def test_nothing_starts_without_a_rehearsal_of_these_very_answers(guest: Guest, site: Site) -> None:
    at, page = rehearsed(guest, site)
    given = shown(page)
    assert guest.answer(at, "start", **given | {"shown": "0" * 64}).summed_up
    guest.answer(at, "approval", **APPROVAL | {"by": "somebody else"})
    assert guest.answer(at, "start", **given).summed_up
    with (site.folder / "a.csv").open("a") as records:
        records.write("1,2\n")
    guest.post(f"{at}/rehearse")
    waited(guest, at)
    page = guest.get(f"{at}/rehearsal")
    assert "is not the file that was confirmed" in " ".join(page.summed_up)
    assert not guest.site.runs.names()


def test_after_half_an_hour_the_code_is_asked_for_before_anything_is_reserved(
    guest: Guest, site: Site
) -> None:
    at, page = rehearsed(guest, site)
    guest.now += IDLE_SECONDS + 1
    answer = guest.post(f"{at}/start", **shown(page))
    assert answer.status == 403
    assert not guest.site.runs.names()
    code = guest.said[-1].rpartition(" ")[2]
    guest.enter(code)
    assert guest.post(f"{at}/start", **shown(page)).status == 303


def test_a_passphrase_goes_from_the_terminal_to_the_child_and_nowhere_else(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest, asked = Guest(tmp_path / "app-of-new"), list[str]()

    def ask(question: str) -> str:
        asked.append(question)
        return SECRET

    guest.site.errands.ask = ask
    arguments = list[str]()
    run = subprocess.run

    def noted(command: list[str], **options: Any) -> Any:
        arguments.extend([*command, *map(str, (options.get("env") or os.environ).values())])
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", noted)
    at = guest.post("/study").headers["location"].removesuffix("/identity")
    folder = tmp_path / "keys"
    page = guest.get(f"{at}/identity")
    assert 'type="password"' not in page.text
    guest.post(f"{at}/make", name="clinic-d", folder=str(folder), locked="yes")
    waited(guest, at)
    page = guest.get(f"{at}/identity")
    assert "encrypted with the passphrase" in page.text
    assert asked == ["New passphrase for clinic-d: ", "Repeat it: "]
    assert not any(SECRET in each for each in arguments)
    everything = tree(tmp_path / "app-of-new") | tree(folder)
    assert not any(SECRET.encode() in content for content in everything.values())
    assert (folder / "clinic-d.identity.toml").stat().st_mode & 0o077 == 0


def test_an_encrypted_identity_takes_part_with_what_the_terminal_was_told(
    guest: Guest, site: Site
) -> None:
    key = site.folder / "a.identity.toml"
    PrivateIdentity.load(key).save(key, passphrase=SECRET, replace=True)
    answers = ["not the passphrase at all", SECRET]
    guest.site.errands.ask = lambda _: answers.pop(0)
    at, page = rehearsed(guest, site)  # which asks for nothing
    assert len(answers) == 2
    guest.post(f"{at}/start", **shown(page))
    waited(guest, at)
    until(lambda: state(guest, site) is RunState.NOT_SPENT)
    page = guest.get(f"/runs/{run_of(site)}")
    assert "passphrase" in page.text
    assert not HoldersLedger(guest.site.ledger or Path()).is_there()
    guest.post(f"/runs/{run_of(site)}/go-on")
    until(lambda: process_of(guest, site).is_dir())
    for name in ("cmdline", "environ"):
        assert SECRET.encode() not in (process_of(guest, site) / name).read_bytes()
    for content in (tree(guest.site.results) | tree(site.folder)).values():
        assert SECRET.encode() not in content


@pytest.mark.parametrize(
    ("answers", "fragment"), [(["a" * 20, "b" * 20], "differ"), (["", ""], "no passphrase")]
)
def test_passphrases_that_differ_or_are_empty_make_nothing(
    answers: list[str], fragment: str
) -> None:
    errands, done = Errands(lambda _: answers.pop(0)), list[str | None]()
    errands.begin("x", "make", done.append, ("one", "two"))
    until(partial(is_over, errands, "x"))
    assert fragment in getattr(errands.of("x"), "fault", "")
    assert done == []


def is_over(errands: Errands, name: str) -> bool:
    """Whether an errand has ended."""
    errand = errands.of(name)
    return errand is not None and errand.state == OVER


def n_awaited(guest: Guest, name: str) -> int:
    """Number of organisations that the study waits for, as its page has it."""
    study = guest.site.runs.look(name).study
    return study.live.sight.n_awaited if study is not None and study.live is not None else 0


def process_of(guest: Guest, site: Site) -> Path:
    """Folder of the child's process, as Linux shows it."""
    return Path("/proc") / str(guest.site.runs.look(run_of(site)).pid or "none")


def state(guest: Guest, site: Site) -> RunState:
    return guest.site.runs.look(run_of(site)).state


def test_whatever_is_killed_the_study_goes_on_and_is_charged_once(guest: Guest, site: Site) -> None:
    at, page = rehearsed(guest, site)
    name = run_of(site)
    assert guest.post(f"{at}/start", **shown(page)).status == 303
    waited(guest, at)
    assert guest.post(f"{at}/start", **shown(page)).status == 303  # a second press
    store = site.folder / "a.store"
    until(lambda: store.exists() and guest.site.runs.look(name).pid)
    site.start(SERVER, site.serve())
    until(lambda: n_awaited(guest, name))
    assert "Waiting for" in guest.get(f"/runs/{name}").text
    os.kill(guest.site.runs.look(name).pid, signal.SIGKILL)
    until(lambda: state(guest, site) is RunState.PAUSED)
    anew = ChildRuns(guest.site.runs.folder)  # an app that is started later
    assert anew.look(name).state is RunState.PAUSED
    page = guest.get(f"/runs/{name}")
    assert "Go on" in page.text
    guest.now += IDLE_SECONDS + 1
    assert guest.post(f"/runs/{name}/go-on").status == 403
    guest.enter(guest.said[-1].rpartition(" ")[2])
    guest.post(f"/runs/{name}/go-on")
    guest.post(f"/runs/{name}/go-on")  # a second press
    until(lambda: guest.site.runs.look(name).pid)
    guest.post(f"/runs/{name}/stop")
    until(lambda: state(guest, site) is RunState.PAUSED)
    guest.post(f"/runs/{name}/go-on")
    for other in ("b", "c"):
        site.start(other, site.join(other))
    until(lambda: state(guest, site) is RunState.DONE)
    assert "the result" in guest.get(f"/runs/{name}").text
    runs = HoldersLedger(guest.site.ledger or Path()).history().runs
    assert list(runs) == [bytes.fromhex(name)]
    assert len(approvals_path(store).read_text().splitlines()) == 1
    assert "result" in guest.get("/").text


@pytest.mark.parametrize("state", [RunState.SPENT, RunState.NOT_SPENT, RunState.PAUSED])
def test_an_end_without_a_result_says_what_is_spent_and_what_to_do(
    guest: Guest, site: Site, state: RunState, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, _ = rehearsed(guest, site)
    answers = guest.site.studies.load(at.rpartition("/")[2])
    file = request_of(guest.site, answers, str(site.folder / "out"), is_rehearsal=False)
    study = StudyLook(
        state, "Stays", "a", 2, 1, 1, 2, is_awaited=True, reason="c did not answer in round 2"
    )
    look = RunLook(state, file, faults=["The run ended: c did not answer in round 2"], study=study)
    monkeypatch.setattr(ChildRuns, "look", lambda *_: look)
    text = guest.get(f"/runs/{file.run_id}").text
    assert text.count("c did not answer in round 2") == 1
    assert ("1 of 2 rounds were charged" in text) is (state is RunState.SPENT)
    assert ("renewed plan" in text) is (state is RunState.SPENT)
    assert ("go-on" in text) is (state is not RunState.SPENT)
    assert ("The others wait for you" in text) is (state is RunState.PAUSED)
    assert ("ledger release" in text) is (state is RunState.PAUSED)
    assert "does not start it again by itself" in text


def test_a_request_whose_child_never_came_is_void_and_may_be_given_again(
    guest: Guest, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, page = rehearsed(guest, site)
    monkeypatch.setattr("fastlloyd.app.children.PATIENCE", 0.0)
    real = subprocess.Popen
    monkeypatch.setattr(
        "fastlloyd.app.children.subprocess.Popen",
        lambda *a, **k: real(["true"]),  # noqa: ARG005
    )
    guest.post(f"{at}/start", **shown(page))
    waited(guest, at)
    until(lambda: state(guest, site) is RunState.NOT_SPENT)
    page = guest.get(f"/runs/{run_of(site)}")
    assert "Nothing was spent" in page.text
    assert "Change the answers" in page.text
    again = guest.post(f"/runs/{run_of(site)}/again").headers["location"]
    assert "In plain words" in guest.get(again).text
    Lock(guest.site.runs.path(run_of(site)) / "request.json").release()


@pytest.mark.parametrize("name", ["a.csv", "a.public.toml"])
def test_another_file_than_a_plan_is_called_that(guest: Guest, site: Site, name: str) -> None:
    at = identified(guest, site)
    page = guest.answer(at, "invitation", plan=str(site.folder / name), digest="0" * 64)
    assert "not a plan" in page.faults["plan"]


def test_a_plan_is_chosen_from_a_list_or_by_a_path_in_quotation_marks(
    guest: Guest, site: Site
) -> None:
    at, path = identified(guest, site), str(site.folder / "plan.toml")
    page = guest.answer(at, "plan-folder", folder=str(site.folder))
    assert f'value="{path}"' in guest.get(f"{at}/invitation").text
    page = guest.answer(at, "plan-folder", chosen=path)
    assert f'name="plan" value="{path}"' in page.text
    digest = site.plan.digest.hex()
    page = guest.answer(at, "invitation", plan=f'"{path}"', digest=digest)
    assert "In plain words" in page.text


def test_a_fault_of_a_rehearsal_goes_when_the_records_are_looked_at_again(
    guest: Guest, site: Site
) -> None:
    at, _ = rehearsed(guest, site)
    path = site.folder / "a.csv"
    with path.open("a") as records:
        records.write("1,2\n")
    guest.post(f"{at}/rehearse")
    waited(guest, at)
    page = guest.get(f"{at}/rehearsal")
    assert page.summed_up
    assert "go back to the records" in page.text
    guest.answer(at, "records", path=str(path), header="yes")
    assert guest.answer(at, "columns", words="").summed_up == []


def test_what_was_written_stays_when_no_identity_was_made(tmp_path: Path) -> None:
    guest = Guest(tmp_path)
    at = guest.post("/study").headers["location"].removesuffix("/identity")
    page = guest.answer(at, "make", name="Clinic D", folder=str(tmp_path / "keys"))
    assert "clinic-d" in page.faults["name"]
    guest.site.errands.ask = lambda _: ""
    guest.answer(at, "make", name="clinic-d", folder=str(tmp_path / "keys"), locked="yes")
    waited(guest, at)
    page = guest.get(f"{at}/identity")
    assert page.faults == {}
    assert page.summed_up[0].startswith("No passphrase")
    assert 'value="clinic-d"' in page.text
    assert f'value="{tmp_path / "keys"}"' in page.text


def test_a_warning_before_the_connection_is_no_reason_of_a_later_end(
    guest: Guest, site: Site
) -> None:
    at, _ = rehearsed(guest, site)
    answers = guest.site.studies.load(at.rpartition("/")[2])
    file = request_of(guest.site, answers, str(site.folder / "out"), is_rehearsal=False)
    folder = guest.site.runs.path(file.run_id)
    folder.mkdir(parents=True)
    file.write(folder / "void.json")
    connected = '{"level": "info", "message": "connected to localhost:1"}\n'
    warning = '{"level": "warning", "message": "nobody listens"}\n'
    for log, faults in ((warning, ["nobody listens"]), (warning + connected, [])):
        (folder / "stderr").write_text(log)
        (folder / "stderr").chmod(0o600)
        assert list(guest.site.runs.look(file.run_id).faults) == faults


def test_a_run_that_is_given_up_gives_back_what_was_not_charged(guest: Guest, site: Site) -> None:
    at, page = rehearsed(guest, site)
    name = run_of(site)
    guest.post(f"{at}/start", **shown(page))
    store = site.folder / "a.store"
    until(lambda: store.exists() and guest.site.runs.look(name).pid)
    guest.post(f"/runs/{name}/give-up", sure="yes")  # while it is under way
    assert state(guest, site) is RunState.RUNNING
    until(lambda: HoldersLedger(guest.site.ledger or Path()).history().runs)
    guest.post(f"/runs/{name}/stop")
    until(lambda: state(guest, site) is RunState.PAUSED)
    assert "sure" in guest.post(f"/runs/{name}/give-up").faults
    assert guest.post(f"/runs/{name}/give-up", sure="yes").status == 303
    assert state(guest, site) is RunState.NOT_SPENT
    (run,) = HoldersLedger(guest.site.ledger or Path()).history().runs.values()
    assert run.ended is not None
    assert not run.counted


def test_an_identity_that_the_plan_does_not_name_is_told_which_it_names(
    guest: Guest, site: Site
) -> None:
    at = identified(guest, site, SERVER)
    page = invitation(guest, at, site, site.plan.digest.hex())
    assert "'a', 'b', 'c'" in page.faults["plan"]
