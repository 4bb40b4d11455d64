"""The ledger of one holder of records: one file that counts every run on them, however it was
begun.

A run of the central model is charged whole before its first noise is drawn; what it hands back
afterwards was never drawn. A run that a client joins is reserved here before it is in the client's
store, which keeps what each exchange needs, and ends here once it has ended there. So whenever a
process dies, the ledger counts no less than was answered. The file is held for as long as one step
takes: other processes wait their turn.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from fastlloyd.base.names import listing
from fastlloyd.base.places import full_path, user_folder
from fastlloyd.errors import BudgetError, StateError
from fastlloyd.federation.admission import (
    DataSet,
    check,
    check_name,
    check_unit,
    reservation_of,
)
from fastlloyd.federation.client_news import WAY_OUT, news, own_run_id, taken_up
from fastlloyd.federation.ledger import Account, account, known_datasets, sums_on, together
from fastlloyd.federation.store import files
from fastlloyd.federation.store.costs import PlannedCost
from fastlloyd.federation.store.durable import Store, read
from fastlloyd.federation.store.events import (
    DataSetNamed,
    HandedBack,
    Outcome,
    PersonRunReserved,
    Role,
    RunCharged,
    RunReserved,
)
from fastlloyd.federation.store.files import SUFFIX, make_folder, store_path
from fastlloyd.federation.store.history import History, Run

VARIABLE: Final = "FASTLLOYD_LEDGER"
PATIENCE: Final = 60.0  # seconds; a step takes a fraction of one
_NO_FINGERPRINT: Final = bytes(32)

Say = Callable[[str], None]


def state_folder() -> Path:
    """The folder of this user's state; it may not be there yet. Raises StateError unless it is the
    same whatever the current folder is.
    """
    if sys.platform == "win32":
        kept = user_folder("LOCALAPPDATA", ("AppData", "Local"), StateError)
    elif sys.platform == "darwin":
        kept = user_folder(None, ("Library", "Application Support"), StateError)
    else:
        kept = user_folder("XDG_STATE_HOME", (".local", "state"), StateError)
    return kept / "fastlloyd"


def place(named: Path | None = None) -> Path:
    """Where the ledger is, a full path: where it is said to be, or where the variable says, or in
    the user's state folder.

    named : as somebody typed it, from the current folder on; whatever else says where it is must be
    a full path. Raises StateError.
    """
    said = os.environ.get(VARIABLE)
    if named is None and not said:
        return state_folder() / f"ledger{SUFFIX}"
    if re.match(r"[a-z][a-z0-9+.-]+:/", str(named or said)):
        raise StateError(
            f"the ledger is {str(named or said)!r:.80}; expected a file on this machine"
        )
    if named is None:
        named = full_path(said or "", VARIABLE, StateError)
    named = full_path(str(named.absolute()), "the ledger", StateError)
    if named.is_dir():
        raise StateError(
            f"the ledger is {str(named)!r:.80}, a folder; name a file in it, such as ledger{SUFFIX}"
        )
    return store_path(named)


class Counted(NamedTuple):
    """Where a run counts. began : when the first event of the ledger was written, UTC since 1970.
    n_runs : how many runs it holds, with this one.
    """

    path: Path
    began: int
    n_runs: int


class Charge:
    """A run of the central model that was charged whole. sums : what was spent on its data set,
    with it.

    counted : in which ledger. stages : what its stages may cost, one after the other.
    """

    def __init__(
        self, sums: list[Account], counted: Counted, stages: Sequence[PlannedCost]
    ) -> None:
        self.sums, self.n_drawn = sums, 0
        self.counted, self._stages = counted, stages

    def drawing(self, number: int) -> None:
        """Hear that noise is about to be drawn for the round of that number, from 0."""
        self.n_drawn = max(self.n_drawn, number + 1)

    def later(self, cost: PlannedCost) -> Callable[[int], None]:
        """What is to be told of the rounds of the second stage, from 0. Raises BudgetError if it
        costs more than was charged for it.
        """
        first, charged = self._stages
        if not charged.covers(cost):
            raise BudgetError(
                "the second stage costs more than was charged for it; report it: nothing more is"
                " drawn"
            )
        return lambda number: self.drawing(len(first.costs) + number)


class HoldersLedger:
    """The ledger at `path`; say : tells its holder that it was made.

    identity : of the very ledger that is meant; None: whichever is there.
    """

    def __init__(
        self, path: Path, say: Say = lambda _: None, identity: bytes | None = None
    ) -> None:
        self.path, self._say, self._identity = path, say, identity

    def opened(self, *, new: bool = False) -> Store:
        """Open the ledger, once no other process has it. Raises StateError.

        new : it is made if it is not there. So only a holder who says that nothing was counted
        before has one made.
        """
        if not self.is_there():
            if not new or self._identity is not None:
                raise StateError(self._missing)
            try:
                make_folder(self.path.parent)
                made = Store.create(
                    self.path, role=Role.HOLDER, identity=os.urandom(32), patience=PATIENCE
                )
            except OSError as error:
                raise self._unusable(error) from None
            except StateError:
                if not self.path.exists():  # else another process was first
                    raise
            else:
                self._say(
                    f"Note: made {self.path}, a new ledger, in which nothing is spent and nothing"
                    " is limited."
                )
                return made
        store = Store.open(self.path, role=Role.HOLDER, patience=PATIENCE, whole=False)
        try:
            self._check_same(store.identity)
        except BaseException:
            store.close()
            raise
        return store

    def _check_same(self, identity: bytes) -> None:
        if self._identity not in (None, identity):
            raise StateError(
                f"{self.path} is another ledger than the one in which this fit is to be counted,"
                " which lies on another machine, or was there before; fit where that one is"
            )

    @property
    def _missing(self) -> str:
        if self._identity is not None:
            return (
                f"there is no ledger {self.path}, in which this fit is to be counted; fit on the"
                " machine where it is, or bring it back"
            )
        return (
            f"there is no ledger {self.path}; bring back its newest copy, name its place with"
            f" --ledger or {VARIABLE} or, if no run was ever counted in it, say --new-dataset (in"
            " Python, fastlloyd.dataset(..., new=True)), which makes one"
        )

    def check_name(self, dataset: DataSet, history: History) -> None:
        """Raise BudgetError unless this ledger, which holds `history`, knows the data set, or it is
        new.
        """
        is_there = "" if self.is_there() else ", which is not there"
        check_name(dataset, history, f"the ledger {self.path}{is_there}")

    def named(self, dataset: DataSet) -> bytes:
        """Have the ledger know the data set from now on; return the ledger's identity. Raises
        BudgetError as `check_name`.
        """
        if not dataset.is_new:
            history, identity = self._read()
            self.check_name(dataset, history)
            return identity or bytes(32)
        if self.is_there():
            self.check_name(dataset, self.history())  # before a process waits for another
        with self.opened(new=True) as store:
            self.check_name(dataset, store.history)
            if dataset.name not in known_datasets(store.history):
                store.append([DataSetNamed(dataset=dataset.name)])
            return store.identity

    def is_there(self) -> bool:
        """Whether there is a ledger. Raises StateError if its head file tells of one that is
        gone.
        """
        try:
            if self.path.exists() or self.path.is_symlink():
                return True
            files.check_never_was(self.path)
        except OSError as error:
            raise self._unusable(error) from None
        except StateError:
            if self.path.exists():  # another process has just made it
                return True
            raise
        return False

    def _unusable(self, error: OSError) -> StateError:
        why = error.strerror or type(error).__name__
        return StateError(
            f"the ledger {self.path} cannot be used ({why}); name another place with --ledger or"
            f" {VARIABLE}"
        )

    def history(self) -> History:
        """What the ledger holds now, nothing if there is none. Raises StateError."""
        return self._read()[0]

    def _read(self) -> tuple[History, bytes | None]:
        """What the ledger holds now, and its identity, if there is one."""
        if not self.is_there():
            if self._identity is not None:
                raise StateError(self._missing)
            return History(Role.HOLDER), None
        contents, _ = read(self.path)
        if contents.role is not Role.HOLDER:
            raise StateError(f"{self.path} is {contents.role.store}; expected {Role.HOLDER.store}")
        self._check_same(contents.identity)
        return contents.history, contents.identity

    @contextmanager
    def charged(
        self, dataset: DataSet, *stages: PlannedCost, by: str, digest: bytes
    ) -> Iterator[Charge]:
        """Charge a whole run to a data set, durably; whatever is drawn inside is counted then.

        stages : what its one stage costs, or its two at most. by : what runs it, a word. digest :
        of the settings of the first. If what is inside fails, rounds that it never told the charge
        of are handed back. Raises BudgetError if a limit does not hold it or the ledger does not
        know the data set, StateError if it cannot be made durable; nothing is spent then.
        """
        cost, run_id = together(*stages), os.urandom(16)
        if dataset.is_new or not self.is_there():  # before a ledger is made
            self.check_name(dataset, self.history())
        with self.opened(new=dataset.is_new) as store:
            self.check_name(dataset, store.history)
            name = store.history.called(dataset.name)
            check_unit(dataset, cost, store.history)
            check(store.history, name, cost)
            whole = reservation_of(
                cost,
                run_id=run_id,
                digest=digest,
                client=by,
                dataset=name,
                fingerprint=_NO_FINGERPRINT,
            )
            self._tell(store, name)
            store.append([*store.history.due(), whole, RunCharged(run_id=run_id)])
            charge = Charge(
                [
                    account(store.history, name, speaks_of=each)
                    for each in sums_on(store.history, name)
                ],
                self._counted(store),
                stages,
            )
        try:
            yield charge
        except BaseException:
            if never_drawn := tuple(range(charge.n_drawn + 1, len(cost.costs) + 1)):
                with (
                    suppress(StateError),
                    self.opened() as store,
                ):  # what cannot be handed back is spent
                    store.append([HandedBack(run_id=run_id, numbers=never_drawn)])
            raise

    def rehearsed(self, dataset: DataSet, *stages: PlannedCost, by: str) -> list[Account]:
        """Return the sums of a data set as they would be with a run of these costs; nothing is
        written. Parameters and errors as of `charged`.
        """
        cost = together(*stages)
        history = self.history()
        self.check_name(dataset, history)
        name = history.called(dataset.name)
        check_unit(dataset, cost, history)
        check(history, name, cost)
        reserved = reservation_of(
            cost,
            run_id=bytes(16),
            digest=bytes(32),
            client=by,
            dataset=name,
            fingerprint=_NO_FINGERPRINT,
        )
        after = history.followed_by([reserved, RunCharged(run_id=bytes(16))])
        return [account(after, name, speaks_of=each) for each in sums_on(after, name)]

    def _counted(self, store: Store) -> Counted:
        return Counted(self.path, store.began or 0, store.history.n_runs)

    def _tell(self, store: Store, dataset: str) -> None:
        """Say, once, that several spellings of a name are counted together."""
        if spellings := store.history.untold(dataset):
            self._say(
                f"Note: {listing(spellings)} are one data set: what was spent on either counts"
                " together, and every limit stands."
            )
            store.append([DataSetNamed(dataset=dataset)])

    def enter(
        self,
        dataset: DataSet,
        client: Store,
        reserved: RunReserved | PersonRunReserved | None,
        run_id: bytes,
    ) -> Counted:
        """Count a run that a client is about to join, durably, and whatever else its store knows.

        reserved : what the client's store is to hold next; None if it holds the run. Raises
        BudgetError and StateError as `charged`.
        """
        mine = own_run_id(run_id, client.identity)
        with self.opened(new=dataset.is_new) as store:
            if mine not in store.history.runs:
                self.check_name(dataset, store.history)
            events = taken_up(store, client)
            after = store.history.followed_by(events)
            if reserved is not None:
                name = after.called(reserved.dataset)
                reserved = msgspec.structs.replace(reserved.under(mine), dataset=name)
            if mine in after.runs and not after.runs[mine].may_begin_again:
                self._check_open(after.runs[mine], run_id)
                begun = after.runs[mine].reserved
                if reserved is not None and begun != reserved:
                    raise StateError(
                        f"run {run_id.hex()} is in {self.path} with another plan, name or data set,"
                        " since a process was killed that was to join it; say the same, or give"
                        f" the run up with `fastlloyd ledger release {client.path} --run"
                        f" {run_id.hex()} --ledger {self.path}`"
                    )
            elif reserved is not None:
                _check_joining(after, client.history, dataset, reserved.cost)
                events.append(reserved)
            if events:
                store.append(events)
            self._tell(store, dataset.name)
            return self._counted(store)

    def check_counts(self, dataset: DataSet, identity: bytes, run_id: bytes) -> None:
        """Raise BudgetError unless this run of that client, or another on its data set, is counted
        here, or the data set is new.
        """
        now = self.history()
        if own_run_id(run_id, identity) not in now.runs:
            self.check_name(dataset, now)

    def rehearse(
        self,
        dataset: DataSet,
        client: Store | Path,
        identity: bytes,
        cost: PlannedCost,
        run_id: bytes,
    ) -> None:
        """Raise what `enter` would raise of a run of this cost that is not in the client's store;
        nothing is written.

        client : where its store is to be, if it has none yet. identity : its signing key.
        """
        now, mine = self.history(), own_run_id(run_id, identity)
        if mine not in now.runs:
            self.check_name(dataset, now)
        known = client.history if isinstance(client, Store) else History(Role.CLIENT)
        if isinstance(client, Store):
            now = now.followed_by(news(now, client))
        elif (seen := now.peers.get(identity.hex())) is not None and seen.length:
            raise StateError(
                f"there is no store {client}, and the ledger saw {seen.length} events of the one of"
                f" this identity: correct the path, {WAY_OUT}"
            )
        begun = now.runs.get(mine)
        if begun is not None and not begun.may_begin_again:
            self._check_open(
                begun, run_id
            )  # a process was killed that was to join it, and it counts already
        else:
            _check_joining(now, known, dataset, cost)

    def _check_open(self, run: Run, run_id: bytes) -> None:
        if run.ended is not None:
            raise StateError(
                f"run {run_id.hex()} has ended, or was given up, in {self.path}; renew the plan for"
                " the next run"
            )

    def follow(self, client: Store, *, only_if_there: bool = False) -> None:
        """Take over what a client's store knows and the ledger does not: runs, and how they ended.
        Raises StateError.

        only_if_there : make no ledger for it.
        """
        if only_if_there and not self.is_there():
            return
        with self.opened() as store:
            if events := taken_up(store, client):
                store.append(events)

    def release_unbegun(self, client: Store, run_id: bytes) -> bool:
        """End a run that was counted here and never came into the client's store, which sent
        nothing then.

        The process that had begun it was killed in between. Returns whether there is such a run.
        """
        mine = own_run_id(run_id, client.identity)
        if not self.is_there():
            return False
        with self.opened() as store:
            taken_up(store, client)  # refuses an old copy
            run = store.history.runs.get(mine)
            joined = client.history.runs.get(run_id)
            never_joined = joined is None or joined.may_begin_again
            if not never_joined or run is None or not run.is_open:
                return False
            store.append([run.end(Outcome.ABORTED, "given up by its owner")])
        return True


def _check_joining(ledger: History, client: History, dataset: DataSet, cost: PlannedCost) -> None:
    check_unit(dataset, cost, ledger, client)
    check(ledger, dataset.name, cost)
