"""What hostile and forgetful people tried on a holder's ledger: it counts no less than was
answered.
"""

import os
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastlloyd as package
from command_line import FIT, SIMULATE, Command, refused
from fastlloyd import FastLloyd, MomentLloyd, NoisyResultWarning
from fastlloyd.errors import BudgetError, StateError
from fastlloyd.federation import holder, simulation
from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.holder import HoldersLedger, place
from fastlloyd.federation.ledger import Proviso, account, whole
from fastlloyd.federation.spending import Spending
from fastlloyd.federation.store import Store, files, head_file
from fastlloyd.federation.store.costs import RunCost
from fastlloyd.federation.store.events import ExchangeCharged, LimitSet, Outcome
from fastlloyd.federation.store.files import connect
from ledgers import knowing
from stores import ADDED, copy_store, new_store, reserved, run_id

PATIENTS = DataSet(name="patients")
X = np.random.default_rng(1).random((60, 2))
ON = ("--no-out", "--dataset", "patients", "--algorithm", "fastlloyd", "--iterations", "3")
RUN = run_id(1)
ALL = (1, 2, 3)

pytestmark = pytest.mark.filterwarnings(
    f"ignore::{NoisyResultWarning.__module__}.{NoisyResultWarning.__name__}"
)


@pytest.fixture
def ledger(ledger_of_its_own: Path) -> HoldersLedger:
    return knowing(ledger_of_its_own)


def model(kind: type[Any] = FastLloyd, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "bounds": (0.0, 1.0),
        "n_records": 100,
        "dataset": "patients",
        "delta": 1e-5,
    }
    return kind(3, **(given | changes))


def counted(ledger: HoldersLedger) -> list[tuple[int, ...]]:
    return [run.counted for run in ledger.history().runs.values()]


def limited(ledger: HoldersLedger, epsilon: float = 30.0) -> None:
    with ledger.opened(new=True) as store:
        store.append([LimitSet(dataset="patients", epsilon=epsilon, delta=1e-5)])


def room_for_one(ledger: HoldersLedger, each: RunCost) -> None:
    """Set a limit that holds one run of this cost and not two."""
    one, two = (Spending.of(n * [whole(each)], ADDED).epsilon(1e-5) for n in (1, 2))
    limited(ledger, (one + two) / 2)


# Numbers from the data


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_number_of_records_that_was_taken_from_them_is_refused_whatever_the_relation(
    ledger: HoldersLedger, fastlloyd: Command, here: Path, relation: str
) -> None:
    """Replacing a record leaves their number, adding one does not, and a limit may be for records
    that are added.
    """
    stated = ("--n-records", "from-data", "--neighboring-relation", relation)
    given = [word for word in FIT if word not in ("--n-records", "500")]
    assert len(given) == len(FIT) - 2
    refused(fastlloyd(*given, *ON, *stated), "taken from the data")
    with pytest.raises(BudgetError, match=r"taken.*the data"):
        model(n_records=None, neighboring_relation=relation).fit(X)
    assert not ledger.history().runs


# Runs, and copies, that the ledger hears of late


def test_a_run_from_before_the_ledger_is_no_run_that_its_limit_was_set_before(
    ledger: HoldersLedger, tmp_path: Path
) -> None:
    with new_store(tmp_path) as store:
        store.append([reserved(RUN)])
        limited(ledger)
        ledger.follow(store)
        known = account(ledger.history(), "patients")
        assert known.proviso is Proviso.TAKEN_OVER
        ledger.enter(PATIENTS, store, reserved(run_id(2)), run_id(2))
        store.append([reserved(run_id(2))])
    assert [run.is_taken_over for run in ledger.history().runs.values()] == [True, False]


@pytest.fixture
def copies(ledger: HoldersLedger, tmp_path: Path) -> dict[str, Path]:
    """A store from before a run, one in which it has begun, which the ledger saw, and the newest,
    which has answered all.
    """
    where = {name: tmp_path / name for name in ("before", "begun", "newest")}
    (tmp_path / "store").mkdir()
    with new_store(tmp_path / "store") as store:
        path = store.path
        ledger.enter(PATIENTS, store, reserved(RUN), RUN)
        copy_store(path, where["before"])
        store.append([reserved(RUN)])
        ledger.follow(store)
    copy_store(path, where["begun"])
    with Store.open(path) as store:
        store.append([ExchangeCharged(run_id=RUN, number=number) for number in ALL])
    copy_store(path, where["newest"])
    return {name: folder / path.name for name, folder in where.items()}


def test_a_store_from_before_the_run_gives_nothing_up(
    ledger: HoldersLedger, copies: dict[str, Path], fastlloyd: Command
) -> None:
    outcome = fastlloyd("ledger", "release", str(copies["before"]), "--run", RUN.hex())
    refused(outcome, "is an old copy")
    assert counted(ledger) == [ALL]


def test_what_was_given_up_in_an_old_copy_counts_again_when_the_newest_is_back(
    ledger: HoldersLedger, copies: dict[str, Path], fastlloyd: Command
) -> None:
    assert fastlloyd("ledger", "release", str(copies["begun"]), "--run", RUN.hex()).code == 0
    assert counted(ledger) == [()]  # nobody could know
    with Store.open(copies["newest"]) as store, pytest.raises(StateError, match="is an old"):
        ledger.follow(store)  # of two copies that went on, neither is the newest
    assert counted(ledger) == [ALL]


@pytest.mark.parametrize("copy", ["before", "made anew"])
def test_a_store_that_was_wiped_or_is_old_is_not_known_again_when_it_has_become_longer(
    ledger: HoldersLedger, copies: dict[str, Path], tmp_path: Path, copy: str
) -> None:
    (tmp_path / "anew").mkdir()
    with (
        Store.open(copies["before"]) if copy == "before" else new_store(tmp_path / "anew")
    ) as store:
        store.append(
            [LimitSet(dataset="patients", epsilon=float(n), delta=1e-5) for n in range(1, 9)]
        )
        steps: tuple[Callable[[], object], ...] = (
            lambda: ledger.release_unbegun(store, RUN),
            lambda: ledger.enter(PATIENTS, store, reserved(RUN), RUN),
            lambda: ledger.follow(store),
            lambda: ledger.rehearse(PATIENTS, store, store.identity, reserved(RUN).cost, run_id(2)),
        )
        for step in steps:
            with pytest.raises(StateError, match="is an old"):
                step()
    assert counted(ledger) == [ALL]


def test_a_store_that_is_gone_is_missed_before_a_long_pass(
    ledger: HoldersLedger, copies: dict[str, Path]
) -> None:
    with Store.open(copies["newest"]) as store:
        identity = store.identity
    with pytest.raises(StateError, match=r"no store x\.store"):
        ledger.rehearse(PATIENTS, Path("x.store"), identity, reserved(RUN).cost, run_id(2))
    ledger.rehearse(PATIENTS, Path("x.store"), bytes(32), reserved(RUN).cost, run_id(2))


def test_a_store_that_is_gone_and_held_nothing_is_not_missed(
    ledger: HoldersLedger, tmp_path: Path
) -> None:
    with new_store(tmp_path) as store:
        ledger.follow(store)
        ledger.rehearse(PATIENTS, Path("x.store"), store.identity, reserved(RUN).cost, RUN)


def test_what_an_old_copy_gave_up_stays_counted(
    ledger: HoldersLedger, copies: dict[str, Path]
) -> None:
    with Store.open(copies["newest"]) as store:
        ledger.follow(store)
    with Store.open(copies["begun"]) as store:
        store.append([store.history.runs[RUN].end(Outcome.ABORTED)])
        with pytest.raises(StateError, match="is an old"):
            ledger.follow(store)
    assert counted(ledger) == [ALL]


def test_a_run_that_a_killed_process_had_entered_is_taken_up_though_a_limit_holds_it_once_only(
    ledger: HoldersLedger, tmp_path: Path
) -> None:
    event = reserved(RUN)
    room_for_one(ledger, event.cost)
    with new_store(tmp_path) as store:
        ledger.enter(PATIENTS, store, event, RUN)  # and then it died
        ledger.rehearse(PATIENTS, store, store.identity, event.cost, RUN)
        ledger.enter(PATIENTS, store, event, RUN)
        assert counted(ledger) == [ALL]
        assert ledger.release_unbegun(store, RUN)
        assert counted(ledger) == [()]
        ledger.rehearse(PATIENTS, store, store.identity, event.cost, RUN)
        ledger.enter(PATIENTS, store, event, RUN)  # it had cost nothing, so it may begin again
        assert counted(ledger) == [ALL]


def test_a_ledger_that_another_process_is_just_making_is_no_ledger_that_is_gone(
    ledger: HoldersLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = files.check_never_was

    def made_meanwhile(path: Path) -> None:
        monkeypatch.setattr(files, "check_never_was", genuine)
        limited(HoldersLedger(path))
        genuine(path)

    monkeypatch.setattr(files, "check_never_was", made_meanwhile)
    assert ledger.is_there()


def test_a_ledger_that_another_process_made_first_is_opened_and_nobody_is_told(
    ledger: HoldersLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(ledger)
    monkeypatch.setattr(HoldersLedger, "is_there", lambda _: False)
    said = list[str]()
    with HoldersLedger(ledger.path, said.append).opened(new=True) as store:
        assert store.position.length == 2
    assert said == []


def test_limits_count_what_only_the_store_of_the_client_knows(
    ledger: HoldersLedger, tmp_path: Path
) -> None:
    mine = reserved(RUN).cost
    room_for_one(ledger, mine)
    with new_store(tmp_path) as store:
        ledger.rehearse(PATIENTS, store, store.identity, mine, run_id(2))
        store.append([reserved(RUN)])
        with pytest.raises(BudgetError, match="spent or reserved"):
            ledger.rehearse(PATIENTS, store, store.identity, mine, run_id(2))
        with pytest.raises(BudgetError, match="spent or reserved"):
            ledger.enter(PATIENTS, store, reserved(run_id(2)), run_id(2))


def test_there_must_be_room_for_what_is_to_follow(ledger: HoldersLedger) -> None:
    part = reserved(RUN).cost
    room_for_one(ledger, part)
    with (
        pytest.raises(BudgetError, match="spent or reserved"),
        ledger.charged(PATIENTS, part, part, by="fit", digest=bytes(32)),
    ):
        pytest.fail("nothing may be drawn")
    with ledger.charged(PATIENTS, part, by="fit", digest=bytes(32)):
        assert counted(ledger) == [ALL]


def test_a_simulation_that_fails_in_the_midst_hands_nothing_back(
    ledger: HoldersLedger, fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StateError("in the midst")

    monkeypatch.setattr(simulation, "simulate", fail)
    assert fastlloyd(*SIMULATE, *ON).code != 0
    assert counted(ledger) == [ALL]


# A ledger that is gone, and where none can be


def test_a_ledger_that_is_gone_is_not_taken_for_one_that_never_was(
    ledger: HoldersLedger, fastlloyd: Command
) -> None:
    limited(ledger)
    ledger.path.rename(ledger.path.with_name("elsewhere"))
    gone = f"there is no store {ledger.path}, and"
    for command in (
        ("ledger", "show"),
        ("ledger", "limit", "--dataset", "p", "--new", "--epsilon", "1", "--delta", "0"),
    ):
        refused(fastlloyd(*command), gone)
    with pytest.raises(StateError, match="held 2 events"):
        ledger.history()
    with pytest.raises(StateError, match="held 2 events"):
        model().fit(X)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("ledger.store", "expected a full path"),
        (" ", "expected a full path"),
        ("~nobody-has-this-name/ledger.store", "no such home folder"),
        ("/tmp", "a folder; name a file in it"),  # noqa: S108
    ],
)
def test_a_variable_that_names_no_file_is_refused(
    monkeypatch: pytest.MonkeyPatch, said: str, why: str
) -> None:
    monkeypatch.setenv(holder.VARIABLE, said)
    with pytest.raises(StateError, match=why):
        model().fit(X)


def test_a_ledger_that_is_a_link_to_nothing_is_not_made_behind_it(
    ledger_of_its_own: Path, fastlloyd: Command, tmp_path: Path
) -> None:
    ledger = HoldersLedger(ledger_of_its_own)
    ledger.path.parent.mkdir()
    ledger.path.symlink_to(tmp_path / "gone.store")
    why = "which is a link to something else; name the store itself"
    refused(fastlloyd("ledger", "show"), f"there is no store {ledger.path}", why)
    with pytest.raises(StateError, match=why):
        model().fit(X)
    assert not (tmp_path / "gone.store").exists()


def test_where_there_is_no_ledger_to_verify_the_sentence_says_how_one_is_made(
    fastlloyd: Command,
) -> None:
    refused(fastlloyd("ledger", "verify"), "the first run with --new-dataset")


@pytest.mark.usefixtures("here")
def test_a_ledger_is_a_file_on_this_machine(fastlloyd: Command, here: Path) -> None:
    refused(
        fastlloyd(*FIT, *ON, "--ledger", "s3://bucket/ledger.store"),
        "expected a file on this machine",
    )
    refused(fastlloyd(*FIT, *ON, "--ledger", str(here)), "a folder; name a file in it")


def test_a_run_is_given_up_in_the_ledger_that_it_was_entered_in(
    tmp_path: Path, fastlloyd: Command
) -> None:
    other = knowing(tmp_path / "other.store")
    with new_store(tmp_path) as store:
        other.enter(PATIENTS, store, reserved(RUN), RUN)
        path = store.path
    given_up = fastlloyd(
        "ledger", "release", str(path), "--run", RUN.hex(), "--ledger", str(other.path)
    )
    assert given_up.code == 0
    assert counted(other) == [()]


def test_a_new_ledger_outlives_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head file is written and synced before the ledger has its name, and so is the name of
    every folder that is made.
    """
    done: list[tuple[str, str]] = []
    sync, rename = os.fsync, Path.rename

    def note_sync(descriptor: int) -> None:
        done.append(("synced", str(Path(f"/proc/self/fd/{descriptor}").readlink())))
        sync(descriptor)

    def note_rename(path: Path, target: Path) -> Path:
        done.append(("named", str(target)))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "rename", note_rename)
    ledger = HoldersLedger(tmp_path / "new" / "deep" / "ledger.store")
    with ledger.opened(new=True):
        pass
    head = f"{head_file.head_path(ledger.path)}-new"  # its own name before it is complete
    folder = str(ledger.path.parent)
    order = [done.index(each) for each in (
        ("synced", str(tmp_path)), ("synced", str(tmp_path / "new")), ("synced", head), ("named", str(ledger.path)),
    )]  # fmt: skip
    assert order == sorted(order)
    assert ("synced", folder) in done[order[-1] :]  # the name itself
    assert ("synced", folder) in done[order[2] : order[3]]  # that of the head file, before


def test_every_commit_is_on_disk_before_it_returns(ledger: HoldersLedger) -> None:
    with ledger.opened(new=True):
        pass
    connection = connect(ledger.path)
    assert connection.execute("PRAGMA synchronous").fetchone()[0] >= 2  # FULL
    connection.close()


# In Python


def test_all_fits_inside_are_charged_to_a_data_set(ledger: HoldersLedger, tmp_path: Path) -> None:
    with package.dataset("patients"):
        first = model(dataset=None).fit(X)
        model().fit(X)  # which names the same
        with pytest.raises(BudgetError, match=r"'others'.*inside dataset\('patients'\)"):
            model(dataset="others").fit(X)
        elsewhere = threading.Thread(target=model(dataset=None).fit, args=[X])
        elsewhere.start()
        elsewhere.join()
    outside = model(dataset=None).fit(X)
    assert (first.privacy_spent_["data_set"], outside.privacy_spent_["data_set"]) == (
        "patients",
        None,
    )
    assert len(ledger.history().runs) == 3
    with package.dataset("patients", new=True, ledger=tmp_path / "other.store"):
        model(dataset=None).fit(X)
    assert len(ledger.history().runs) == 3
    assert len(HoldersLedger(tmp_path / "other.store").history().runs) == 1


def test_blocks_that_generators_hold_open_end_in_any_order() -> None:
    def inside(name: str) -> Generator[str | None]:
        with package.dataset(name, new=True):
            yield None
            yield model(dataset=None).fit(X).privacy_spent_["data_set"]

    with package.dataset("b", new=True):
        first, second = inside("a"), inside("c")
        next(first)
        next(second)
        first.close()
        assert next(second) == "c"
        second.close()
        assert model(dataset=None).fit(X).privacy_spent_["data_set"] == "b"
    assert model(dataset=None).fit(X).privacy_spent_["data_set"] is None
    third = inside("a")
    elsewhere = threading.Thread(target=next, args=[third])
    elsewhere.start()
    elsewhere.join()
    third.close()


def test_a_file_is_the_same_wherever_fits_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    with package.dataset("patients", new=True, ledger="mine.store"):
        model(dataset=None).fit(X)
        monkeypatch.chdir(tmp_path / "sub")
        model(dataset=None).fit(X)
    assert len(HoldersLedger(tmp_path / "mine.store").history().runs) == 2


def test_a_limit_for_patients_holds_fits_that_protect_them_or_have_one_row_of_each(
    ledger: HoldersLedger, fastlloyd: Command
) -> None:
    limit = (
        "ledger",
        "limit",
        "--dataset",
        "patients",
        "--new",
        "--unit",
        "patient",
        "--epsilon",
        "3",
        "--delta",
        "1e-5",
    )
    assert fastlloyd(*limit).code == 0
    ids = np.arange(len(X)) // 2
    model(MomentLloyd, unit="patient").fit(X, groups=ids)
    with package.dataset("patients", rows_are="patient"):
        model(dataset=None).fit(X)
    assert len(ledger.history().runs) == 2
    with pytest.raises(BudgetError, match="unit 'person' is"):
        model(MomentLloyd).fit(X, groups=ids)
    with pytest.raises(BudgetError, match="does not protect"):
        model().fit(X)
    with pytest.raises(BudgetError, match="limit epsilon 3"):
        model(MomentLloyd, unit="patient", epsilon=3.0).fit(X, groups=ids)
    with pytest.raises(BudgetError, match="'others' is unknown"):
        model(dataset="others").fit(X)
    with package.dataset("others", new=True):
        model(dataset=None).fit(X)
    assert len(ledger.history().runs) == 3


@pytest.mark.parametrize("name", [123, True, ["p"], b"p", "", "a b", "x" * 65])
def test_what_cannot_be_a_name_is_refused_in_one_sentence(ledger: HoldersLedger, name: Any) -> None:
    with pytest.raises(BudgetError, match=r"^dataset is.*a-z, A-Z"):
        model(dataset=name).fit(X)
    assert not ledger.history().runs


def test_a_name_of_numpy_is_one(ledger: HoldersLedger) -> None:
    model(dataset=np.str_("patients")).fit(X)
    assert place() == ledger.path
    assert counted(ledger) == [tuple(range(1, len(counted(ledger)[0]) + 1))]
