"""What one process draws noise for is in the ledger before, whatever then becomes of the process,
the disk or the file.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import marked_process
from command_line import FIT, SIMULATE, Command, refused
from fastlloyd import FastLloyd, MomentLloyd, NoisyResultWarning
from fastlloyd.cli.failures import run
from fastlloyd.errors import BudgetError, DataError, StateError
from fastlloyd.federation import holder
from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.holder import Charge, Counted, HoldersLedger, place
from fastlloyd.federation.ledger import account
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.store import History, Role, Store, read
from fastlloyd.federation.store.events import LimitSet
from fastlloyd.federation.store.files import files
from fastlloyd.federation.store.lock import InUseError, Lock
from fastlloyd.mechanisms.answering import CappedRecords
from fastlloyd.mechanisms.private_run import PrivateRun
from ledgers import knowing
from mortal_parties import DISK_FAULTS, NOT_SYNCED, FailingDisk
from stores import copy_store, cost, new_store, pure_cost

PATIENTS = DataSet(name="patients")
X = np.random.default_rng(1).random((60, 2))
SHORT = ("--algorithm", "fastlloyd", "--iterations", "3")
FITTED = (*FIT, "--no-out", "--dataset", "patients", *SHORT)
N = 3  # exchanges of these

# bounds that noise finds leave out about 2 % of the records, so they may warn by chance
pytestmark = pytest.mark.filterwarnings(
    f"ignore::{NoisyResultWarning.__module__}.{NoisyResultWarning.__name__}",
    "ignore::fastlloyd.errors.ClippedRecordsWarning",
)


@pytest.fixture
def ledger(ledger_of_its_own: Path) -> HoldersLedger:
    return knowing(ledger_of_its_own)


def model(**changes: Any) -> FastLloyd:
    given: dict[str, Any] = {
        "n_iter": N,
        "bounds": (0.0, 1.0),
        "n_records": 100,
        "dataset": "patients",
        "random_state": 1,
    }
    return FastLloyd(3, **(given | changes))


def charged(ledger: HoldersLedger) -> list[tuple[int, ...]]:
    """Of each run, what counts."""
    return [run.counted for run in ledger.history().runs.values()]


def at_every_draw(monkeypatch: pytest.MonkeyPatch, happens: Callable[[int], None]) -> None:
    """Have this happen with the number of the draw, from 0, before noise is drawn."""
    genuine, drawn = PrivateRun.draw_noise, 0

    def draw(self: Any, *arguments: Any) -> Any:
        nonlocal drawn
        happens(drawn)
        drawn += 1
        return genuine(self, *arguments)

    monkeypatch.setattr(PrivateRun, "draw_noise", draw)


# Before the noise


def fit_by_command() -> None:
    assert run(FITTED) == 0


def fit_by_estimator() -> None:
    model().fit(X)


BY = pytest.mark.parametrize("fit", [fit_by_command, fit_by_estimator])


@BY
@pytest.mark.usefixtures("here")
def test_everything_counts_before_the_first_noise_is_drawn(
    fit: Callable[[], None], ledger: HoldersLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[list[tuple[int, ...]]] = []
    at_every_draw(monkeypatch, lambda _: counted.append(charged(ledger)))
    fit()
    assert counted == [[(1, 2, 3)]] * N
    fit()
    assert counted[N:] == [[(1, 2, 3)] * 2] * N


@pytest.mark.usefixtures("here")
def test_a_simulation_is_charged_as_its_plan_is(ledger: HoldersLedger, fastlloyd: Command) -> None:
    assert fastlloyd(*SIMULATE, *SHORT, "--dataset", "patients", "--out", "result").code == 0
    (mine,) = ledger.history().runs.values()
    assert (mine.counted, mine.is_open) == ((1, 2, 3), False)
    assert mine.reserved is not None
    assert mine.reserved.plan_digest == Plan.from_toml(Path("result/plan.toml").read_text()).digest
    assert mine.reserved.client == "simulate"
    assert mine.reserved.cost.distance > 0  # its noise comes in shares
    spent = account(ledger.history(), "patients")
    assert spent.epsilon <= mine.reserved.cost.epsilon


def test_what_an_estimator_spends_is_what_it_states_and_clones_spend_it_again(
    ledger: HoldersLedger,
) -> None:
    from sklearn.base import clone

    first = model(epsilon=0.5).fit(X)
    assert first.privacy_spent_["data_set"] == "patients"
    assert "data_set='patients'" in repr(first.privacy_spent_)
    clone(first).fit(X)
    known = account(ledger.history(), "patients")
    assert known.spent.mu_squared == 2 * first.mechanism_.accountant().mu_squared
    assert {run.reserved.client for run in known.runs if run.reserved is not None} == {"FastLloyd"}
    nobodys = model(dataset=None).fit(X)
    assert nobodys.privacy_spent_["data_set"] is None
    assert len(ledger.history().runs) == 2


class Mine(FastLloyd):
    """An estimator of a user's own."""


class Elsewhere:
    """What a user's estimators also are."""


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Mine, "Mine"),
        (type("Médecin", (FastLloyd,), {}), "FastLloyd"),
        (type("Médecin", (Elsewhere, Mine), {}), "Mine"),
        (type(65 * "M", (FastLloyd,), {}), "FastLloyd"),
        (type(64 * "M", (FastLloyd,), {}), 64 * "M"),
        (type("", (FastLloyd,), {}), "FastLloyd"),
    ],
)
def test_a_ledger_names_a_users_own_estimator_or_the_nearest_class_that_it_can_name(
    ledger: HoldersLedger, kind: type[FastLloyd], name: str
) -> None:
    kind(3, n_iter=1, bounds=(0.0, 1.0), n_records=100, dataset="patients").fit(X)
    assert [
        run.reserved.client for run in ledger.history().runs.values() if run.reserved is not None
    ] == [name]


def test_persons_are_counted_as_persons(ledger: HoldersLedger) -> None:
    mine = MomentLloyd(2, bounds=(0.0, 1.0), n_records=100, dataset="patients", random_state=1)
    mine.fit(X, groups=np.arange(60) // 3)
    sums = account(ledger.history(), "patients")
    assert (
        sums.spent.mu_squared == mine.mechanism_.accountant().mu_squared
    )  # of one record, by lemma 2
    (run,) = sums.runs
    assert run.reserved is not None
    assert getattr(run.reserved.cost, "unit", None) == "person"


# Deaths


def killed(ledger: HoldersLedger, action: Callable[[], object]) -> int:
    """Fork a process that does this; how often it drew noise, to the end or until it was killed."""
    sys.stdout.flush()
    seen, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with pytest.MonkeyPatch.context() as patched:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                os.dup2(1, 2)
                at_every_draw(patched, lambda _: os.write(told, b"."))  # type: ignore[arg-type]
                action()
        finally:
            os._exit(0)
    os.close(told)
    with os.fdopen(seen, "rb") as pipe:
        n_drawn = len(pipe.read())
    os.waitpid(child, 0)
    return n_drawn


def die_at_draw(number: int, fit: Callable[[], None]) -> Callable[[], None]:
    def action() -> None:
        with pytest.MonkeyPatch.context() as patched:
            at_every_draw(
                patched, lambda n: os.kill(os.getpid(), signal.SIGKILL) if n == number else None
            )
            fit()

    return action


def die_at_commit(commit: int, when: str, fit: Callable[[], None]) -> Callable[[], None]:
    def action() -> None:
        marked_process.die_at(commit, when, in_ledger=True)
        fit()

    return action


def failing_in_round(number: int, fit: Callable[[], None]) -> Callable[[], None]:
    """The records cannot be read any more in that round, from 0."""

    def action() -> None:
        genuine, asked = CappedRecords.answer, 0

        def answer(self: Any, query: Any) -> Any:
            nonlocal asked
            asked += 1
            if asked == number + 1:
                raise DataError("the file is gone")
            return genuine(self, query)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(CappedRecords, "answer", answer)
            fit()

    return action


@BY
@pytest.mark.usefixtures("here")
def test_a_process_killed_at_any_commit_or_any_draw_has_counted_all_that_it_drew(
    fit: Callable[[], None], ledger: HoldersLedger
) -> None:
    assert killed(ledger, die_at_commit(0, "before", fit)) == 0
    assert charged(ledger) == []
    everything = (1, 2, 3)
    for n_runs, (n_drawn, action) in enumerate(
        [
            (0, die_at_commit(0, "after", fit)),
            *((number, die_at_draw(number, fit)) for number in range(N)),
            (N, fit),
            *(
                (number, die_at_commit(1, "before", failing_in_round(number, fit)))
                for number in range(N)
            ),
        ],
        1,
    ):
        assert killed(ledger, action) == n_drawn
        assert charged(ledger) == [everything] * n_runs
    before = charged(ledger)
    for number in range(
        N
    ):  # what was certainly not drawn is handed back, if the process lives to do it
        for action in (
            die_at_commit(1, "after", failing_in_round(number, fit)),
            failing_in_round(number, fit),
        ):
            assert killed(ledger, action) == number
            before.append(everything[:number])
            assert charged(ledger) == before


@BY
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("number", range(N))
def test_a_round_counts_whose_noise_was_being_drawn_when_the_run_was_interrupted(
    fit: Callable[[], None], number: int, ledger: HoldersLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(draw: int) -> None:
        if draw == number:
            raise KeyboardInterrupt

    at_every_draw(monkeypatch, interrupt)
    with pytest.raises(
        (KeyboardInterrupt, AssertionError)
    ):  # a command ends with a code of its own
        fit()
    assert charged(ledger) == [tuple(range(1, number + 2))]


RANGE = (
    "data.csv",
    "--range",
    "-1000:1000",
    "--n-records",
    "4000",
    "--epsilon",
    "3",
    "--dataset",
    "patients",
)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "look",
    [
        lambda: run(("fit", *RANGE, "-k", "3", "--no-out")),
        lambda: run(("bounds", "estimate", *RANGE, "--out", "bounds.toml")),
        lambda: model(bounds="private", value_range=(-10.0, 10.0), n_records=4000, epsilon=3.0).fit(
            X
        ),
    ],
    ids=["fit", "bounds estimate", "estimator"],
)
def test_the_round_that_looks_for_bounds_counts_from_its_draw_on(
    look: Callable[[], object], ledger: HoldersLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    at_every_draw(monkeypatch, interrupt)
    with suppress(KeyboardInterrupt):
        look()
    assert charged(ledger) == [(1,)]


def test_what_was_told_of_a_round_is_not_taken_back_by_an_earlier_one() -> None:
    charge = Charge([], Counted(Path("ledger.store"), 0, 1), [])
    for number in (0, 2, 1):
        charge.drawing(number)
    assert charge.n_drawn == 3


def test_where_nothing_can_be_handed_back_the_fault_is_said_that_ended_the_run(
    ledger: HoldersLedger,
) -> None:
    def fail() -> None:
        ledger.path.rename(ledger.path.with_name("elsewhere"))
        raise DataError("the file is gone")

    with ledger.opened(new=True) as store:
        store.append([LimitSet(dataset="patients", epsilon=9.0, delta=0.0)])
    run = ledger.charged(PATIENTS, pure_cost(Fraction(1)), by="fit", digest=bytes(32))
    with pytest.raises(DataError, match="file is gone"), run:
        fail()


NOTEBOOK = """
import os, signal
import numpy as np
from fastlloyd import FastLloyd
from fastlloyd.mechanisms.private_run import PrivateRun
genuine, drawn = PrivateRun.draw_noise, []
def draw(self, *arguments):
    drawn.append(1)
    if len(drawn) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return genuine(self, *arguments)
PrivateRun.draw_noise = draw
FastLloyd(3, n_iter=3, bounds=(0.0, 1.0), n_records=100, dataset="patients").fit(np.random.rand(60, 2))
"""


def test_a_notebooks_kernel_that_is_killed_between_two_draws_has_counted_all(
    ledger: HoldersLedger,
) -> None:
    # our own program
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", NOTEBOOK], check=False)
    assert done.returncode == -signal.SIGKILL
    assert charged(ledger) == [(1, 2, 3)]


# Several processes


def test_processes_at_once_are_all_counted_and_together_keep_to_the_limit(
    ledger_of_its_own: Path,
) -> None:
    """Each of four processes asks for eight runs, and 20 fit; they also race to make the ledger."""
    limit, each = LimitSet(dataset="patients", epsilon=20.0, delta=0.0), pure_cost(Fraction(1))
    ledger = HoldersLedger(ledger_of_its_own)

    def several() -> None:
        for _ in range(8):
            try:
                with ledger.charged(PATIENTS, each, by="fit", digest=bytes(32)) as charge:
                    charge.drawing(0)
            except BudgetError:
                pass

    assert not ledger.path.exists()
    children = [_forked(lambda: ledger.opened(new=True).close()) for _ in range(4)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    with ledger.opened(new=True) as store:
        store.append([limit])
    children = [_forked(several) for _ in range(4)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert charged(ledger) == [(1,)] * 20
    assert account(ledger.history(), "patients").epsilon == 20


def _forked(action: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return child


@pytest.mark.usefixtures("here")
def test_who_waits_in_vain_says_so_in_a_sentence_and_draws_nothing(
    ledger: HoldersLedger, fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder, "PATIENCE", 0.0)
    at_every_draw(monkeypatch, _never)
    ledger.opened(new=True).close()
    lock = Lock(ledger.path)
    refused(fastlloyd(*FITTED), "is in use by another process")
    with pytest.raises(InUseError):
        model().fit(X)
    lock.release()


def _never(_: int) -> None:
    raise AssertionError("noise was drawn")


# Disks and copies


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("fault", DISK_FAULTS)
def test_where_the_disk_fails_nothing_is_drawn_and_nothing_is_spent(
    fault: str, ledger: HoldersLedger, fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for a commit that fails once all is written: then what was never drawn counts."""
    ledger.opened(new=True).close()
    genuine = Store.append

    def append(store: Store, events: Sequence[Any], **more: Any) -> None:
        connection = store._connection
        # stands for one
        store._connection = FailingDisk(connection, fault)  # type: ignore[assignment]
        try:
            genuine(store, events, **more)
        finally:
            store._connection = connection

    monkeypatch.setattr(Store, "append", append)
    at_every_draw(monkeypatch, _never)
    refused(fastlloyd(*FITTED), DISK_FAULTS[fault][2])
    with pytest.raises(StateError, match=DISK_FAULTS[fault][2]):
        model().fit(X)
    assert charged(ledger) == ([(1, 2, 3)] * 2 if fault == NOT_SYNCED else [])


@pytest.mark.usefixtures("here")
def test_a_ledger_that_cannot_be_made_is_refused_in_a_sentence(
    fastlloyd: Command, here: Path
) -> None:
    (here / "file").touch()
    outcome = fastlloyd(*FITTED, "--new-dataset", "--ledger", "file/ledger.store")
    refused(
        outcome,
        f"the ledger {here / 'file' / 'ledger.store'} cannot be used",
        "name another path with --ledger or FASTLLOYD_LEDGER",
    )


@BY
@pytest.mark.usefixtures("here")
def test_a_copy_that_was_brought_back_beside_its_head_file_is_refused(
    fit: Callable[[], None], ledger: HoldersLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit()
    old = copy_store(ledger.path, tmp_path / "old")
    fit()
    for kept, now in zip(files(old)[:2], files(ledger.path)[:2], strict=True):
        now.unlink(missing_ok=True)
        if kept.exists():
            kept.rename(now)
    at_every_draw(monkeypatch, _never)
    with pytest.raises(StateError, match=r"damaged or.*old copy"):
        model().fit(X)
    assert run(FITTED) == 2
    ledger.path.unlink()
    with pytest.raises(StateError, match="both files back"):
        model().fit(X)


def test_a_ledger_is_for_its_holder_only(ledger: HoldersLedger) -> None:
    model().fit(X)
    for path in (ledger.path, *ledger.path.parent.glob("ledger.store-*")):
        assert path.stat().st_mode & 0o777 == 0o600
    assert ledger.path.parent.stat().st_mode & 0o777 == 0o700
    ledger.path.chmod(0o644)
    with pytest.raises(StateError, match="open to others"):
        model().fit(X)


def test_the_store_of_a_client_is_no_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = new_store(tmp_path)
    path.close()
    monkeypatch.setenv(holder.VARIABLE, str(path.path))
    with pytest.raises(StateError, match=r"client; expected.*ledger"):
        model().fit(X)
    with pytest.raises(StateError, match=r"client; expected.*ledger"):
        HoldersLedger(place()).history()


# Where it is


def test_the_ledger_is_where_it_is_said_to_be_or_where_the_variable_says_or_in_the_state_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(holder.VARIABLE, "~/mine.store")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert place(Path("other.store")) == tmp_path / "other.store"
    assert place() == tmp_path / "mine.store"
    monkeypatch.delenv(holder.VARIABLE)
    monkeypatch.setattr(holder, "state_folder", lambda: tmp_path / "state")
    assert place() == tmp_path / "state" / "ledger.store"


@pytest.mark.parametrize(
    ("platform", "variable", "folder"),
    [("linux", "XDG_STATE_HOME", ".local/state"), ("win32", "LOCALAPPDATA", "AppData/Local")],
)
def test_the_state_folder_is_the_systems(
    platform: str, variable: str, folder: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    assert holder.state_folder() == tmp_path / "elsewhere" / "fastlloyd"
    monkeypatch.delenv(variable)
    assert holder.state_folder() == tmp_path / folder / "fastlloyd"


# What is refused


def test_what_is_taken_from_the_data_is_in_no_ledger(
    ledger: HoldersLedger, fastlloyd: Command
) -> None:
    with pytest.raises(BudgetError, match="pass public values"):
        model(n_records=None).fit(X)
    outcome = fastlloyd(
        "fit",
        "data.csv",
        "-k",
        "3",
        "--bounds",
        "0:100",
        "--n-records",
        "from-data",
        "--dataset",
        "a",
        "--no-out",
    )
    refused(outcome, "the ledger of data set 'a' cannot count such a run")
    taken = (
        "fit",
        "data.csv",
        "-k",
        "3",
        "--bounds",
        "from-data",
        "--n-records",
        "500",
        "--dataset",
        "a",
        "--no-out",
    )
    refused(
        fastlloyd(*taken),
        "bounds were taken from the data",
        "the ledger of data set 'a' cannot count such a run",
    )
    assert charged(ledger) == []


@pytest.mark.parametrize("name", ["two words", "", "../x", "x" * 65])
def test_what_cannot_be_a_name_is_refused(name: str, ledger: HoldersLedger) -> None:
    with pytest.raises(BudgetError, match="dash or underscore"):
        model(dataset=name).fit(X)
    assert ledger.history().runs == {}


def test_an_unlike_name_is_a_slip(ledger: HoldersLedger) -> None:
    model().fit(X)
    with pytest.raises(BudgetError, match="you mean 'patients'"):
        model(dataset="patient").fit(X)
    with ledger.charged(
        DataSet(name="patient", is_new=True), cost(Fraction(1, 9)), by="fit", digest=bytes(32)
    ):
        pass


def test_a_history_that_is_read_is_that_of_a_ledger_that_is_not_there_yet(
    ledger_of_its_own: Path,
) -> None:
    ledger = HoldersLedger(ledger_of_its_own)
    assert ledger.history().runs == History(Role.HOLDER).runs
    assert not ledger.path.parent.exists()
    knowing(ledger.path)
    model().fit(X)
    assert read(ledger.path)[0].role is Role.HOLDER
