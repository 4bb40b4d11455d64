"""Ledger of one holder of records: one file that counts every run on these records, however the run
was begun.

A run without other organisations is charged as a whole, before its first noise is drawn. Rounds
whose noise was not drawn may be refunded later. A run that a client joins is reserved in the ledger
before it is in the client's store. It ends in the ledger after it has ended in the store. The store
contains the charge of each round. So even if a process is killed, the ledger counts no less than
was answered. Each step locks the file for a short time, and other processes wait.
"""

import os
import re
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from fastlloyd.base.names import listing
from fastlloyd.base.places import full_path, user_folder
from fastlloyd.errors import BudgetError, StateError
from fastlloyd.federation import admission
from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.client_news import WAY_OUT, news, own_run_id, taken_up
from fastlloyd.federation.earlier_use import earlier_use
from fastlloyd.federation.ledger import (
    Account,
    accounts_on,
    known_datasets,
    together,
)
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
    RunNoted,
    RunReserved,
    n_events,
)
from fastlloyd.federation.store.files import SUFFIX, make_folder, store_path
from fastlloyd.federation.store.history import History, Run
from fastlloyd.federation.store.noted import NOTHING, Noted

VARIABLE: Final = "FASTLLOYD_LEDGER"
PATIENCE: Final = 60.0  # seconds to wait; a step takes a fraction of a second

Say = Callable[[str], None]


def state_folder() -> Path:
    """Return the folder for the state of this user, which may not exist yet.

    Raises StateError if the path depends on the current folder.
    """
    if sys.platform == "win32":
        kept = user_folder("LOCALAPPDATA", ("AppData", "Local"), StateError)
    elif sys.platform == "darwin":
        kept = user_folder(None, ("Library", "Application Support"), StateError)
    else:
        kept = user_folder("XDG_STATE_HOME", (".local", "state"), StateError)
    return kept / "fastlloyd"


def place(named: Path | None = None) -> Path:
    """Return the full path of the ledger.

    The path is `named` or, if that is None, the path in the environment variable FASTLLOYD_LEDGER.
    Without either, it is a file in the user's state folder. A relative `named` starts at the
    current folder, but the path in the variable must be a full one.

    Raises StateError if the path does not name a file on this machine.
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
    """Ledger that counts a run.

    path : path of the ledger.
    began : time of the ledger's first event, in seconds since 1970, UTC.
    n_runs : number of runs in the ledger, including this one.
    """

    path: Path
    began: int
    n_runs: int


class Charge:
    """Charge of a whole run of a mechanism.

    sums : accounts of the data set (`ledger.Account`), including this run.
    counted : ledger that counts the run.
    n_drawn : number of rounds whose noise was drawn, or is about to be.

    Parameters
    ----------
    stages : largest cost of each stage, in order.
    """

    def __init__(
        self, sums: list[Account], counted: Counted, stages: Sequence[PlannedCost]
    ) -> None:
        self.sums, self.n_drawn = sums, 0
        self.counted, self._stages = counted, stages

    def drawing(self, number: int) -> None:
        """Count the noise of round `number` as drawn, because it is about to be drawn. Rounds are
        counted from 0.
        """
        self.n_drawn = max(self.n_drawn, number + 1)

    def later(self, cost: PlannedCost) -> Callable[[int], None]:
        """Return a function for the second stage. Call it with the number of each round, from 0,
        before the noise of the round is drawn.

        cost : cost of the second stage.

        Raises BudgetError if the stage costs more than was charged for it.
        """
        first, charged = self._stages
        if not charged.covers(cost):
            raise BudgetError(
                "the second stage costs more than was charged for it, so no more noise is drawn;"
                " please report this"
            )
        return lambda number: self.drawing(len(first.costs) + number)


class HoldersLedger:
    """Ledger of a holder of records, in a file that may not exist yet.

    path : path of the ledger.

    Parameters
    ----------
    say : function that receives notes for the holder, for example that a ledger was made.
    identity : identity that the ledger must have, 32 bytes, or None for any.
    """

    def __init__(
        self,
        path: Path,
        say: Say = lambda _: None,
        identity: bytes | None = None,
        noted: Noted = NOTHING,
    ) -> None:
        self.path, self._say, self._identity = path, say, identity
        self._noted = noted

    def opened(self, *, new: bool = False) -> Store:
        """Open the ledger, once no other process has it open, and return its store.

        new : whether to make a ledger if the file does not exist. An empty ledger does not count
            earlier runs, so pass True only if there were none.

        Raises StateError if there is no ledger, or if it cannot be used.
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
                if not self.path.exists():  # otherwise another process has just made it
                    raise
            else:
                self._say(f"Note: made {self.path}, a new ledger without runs or limits.")
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
                f"{self.path} is not the ledger that counts this fit; that ledger is on another"
                " machine, or this one replaced it. Fit on the machine where that ledger is, or"
                " bring it back"
            )

    @property
    def _missing(self) -> str:
        if self._identity is not None:
            return (
                f"the ledger {self.path}, which counts this fit, is missing; fit on the machine"
                " where that ledger is, or bring it back"
            )
        return (
            f"there is no ledger {self.path}; bring back its newest copy, or name its path with"
            f" --ledger or {VARIABLE}. If no run was ever counted in it, pass --new-dataset (in"
            " Python fastlloyd.dataset(..., new=True)) to make one"
        )

    def check_name(self, dataset: DataSet, history: History) -> None:
        """Raise BudgetError if the ledger does not contain the data set, unless the owner says that
        the data set is new. If the owner says so, raise BudgetError if the ledger has runs or a
        limit on it.

        history : history of this ledger.
        """
        is_there = "" if self.is_there() else ", which does not exist"
        admission.check_name(dataset, history, f"the ledger {self.path}{is_there}")

    def named(self, dataset: DataSet) -> bytes:
        """Add the data set to the ledger if it is new, and return the ledger's identity, 32 bytes.

        Raises BudgetError as `check_name` does, and StateError if the ledger cannot be used.
        """
        if not dataset.is_new:
            history, identity = self._read()
            self.check_name(dataset, history)
            return identity or bytes(32)
        if self.is_there():
            self.check_name(dataset, self.history())  # check before waiting for another process
        with self.opened(new=True) as store:
            self.check_name(dataset, store.history)
            if dataset.name not in known_datasets(store.history):
                store.append([DataSetNamed(dataset=dataset.name)])
            return store.identity

    def is_there(self) -> bool:
        """Return whether the ledger exists. Raises StateError if only its head file exists."""
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
            f"the ledger {self.path} cannot be used ({why}); name another path with --ledger or"
            f" {VARIABLE}"
        )

    def history(self) -> History:
        """Return the history of the ledger, or an empty history if there is no ledger.

        Raises StateError if the ledger cannot be read, or if it is not the expected one.
        """
        return self._read()[0]

    def _read(self) -> tuple[History, bytes | None]:
        """Return the history and the identity of the ledger. If there is no ledger, return an empty
        history and None.
        """
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
        self,
        dataset: DataSet,
        *stages: PlannedCost,
        by: str,
        digest: bytes,
        run_id: bytes | None = None,
    ) -> Iterator[Charge]:
        """Context that first charges a whole run to a data set, and writes the charge durably. The
        noise is drawn inside the `with` block.

        If the block fails, the rounds for which it did not call `Charge.drawing` are refunded.

        stages : cost of the run's one stage, or the largest cost of each of its two stages.
        by : name of the caller, in one word.
        digest : digest of the first stage's mechanism, 32 bytes.
        run_id : id of the run, 16 bytes, or None for a new one.

        Raises BudgetError if a limit is too low or the ledger does not contain the data set. Raises
        StateError if the charge cannot be made durable, or if the ledger has a run with this id.
        After either error nothing is spent.
        """
        cost, run_id = together(*stages), admission.new_run_id(run_id, self.history)
        if dataset.is_new or not self.is_there():  # check before a ledger is made
            self.check_name(dataset, self.history())
        earlier = self._earlier_use(cost)
        with self.opened(new=dataset.is_new) as store:
            admission.check_new_run(run_id, store.history)
            self.check_name(dataset, store.history)
            name = store.history.called(dataset.name)
            admission.check_unit(dataset, cost, store.history)
            admission.check(store.history, name, cost)
            whole = admission.reservation_of(
                cost, run_id=run_id, digest=digest, client=by, dataset=name
            )
            self._tell(store, name)
            noted = self._note(run_id)
            store.append([*store.history.due(), whole, *noted, RunCharged(run_id=run_id)])
            sums = accounts_on(store.history, name)
            charge = Charge(sums, self._counted(store), stages)
        self._say_earlier_use(earlier)
        try:
            yield charge
        except BaseException:
            if never_drawn := tuple(range(charge.n_drawn + 1, len(cost.costs) + 1)):
                with (
                    suppress(StateError),
                    self.opened() as store,
                ):
                    # if the refund fails, these exchanges count as spent
                    store.append([HandedBack(run_id=run_id, numbers=never_drawn)])
            raise

    def rehearsed(self, dataset: DataSet, *stages: PlannedCost, by: str) -> list[Account]:
        """Return the accounts of a data set (`ledger.Account`) as they would be after a run with
        these stages. Nothing is written.

        The parameters and errors are those of `charged`.
        """
        cost = together(*stages)
        history = self.history()
        self.check_name(dataset, history)
        name = history.called(dataset.name)
        admission.check_unit(dataset, cost, history)
        admission.check(history, name, cost)
        return accounts_on(admission.followed_by_run(history, cost, by, name), name)

    def _note(self, run_id: bytes) -> list[RunNoted]:
        """Return the event with the owner's facts about a new run, or no event if there are no
        facts.
        """
        command, purpose, files = self._noted
        if not purpose and files is None:
            return []
        return [RunNoted(run_id=run_id, command=command, purpose=purpose, files=files)]

    def _earlier_use(self, cost: PlannedCost) -> str | None:
        """Return the sentence on earlier runs on the same files (`earlier_use`), or None."""
        files = self._noted.files
        return None if files is None else earlier_use(self.history(), files, cost)

    def _say_earlier_use(self, sentence: str | None) -> None:
        if sentence is not None:
            self._say(f"Note: {sentence}")

    def _counted(self, store: Store) -> Counted:
        return Counted(self.path, store.began or 0, store.history.n_runs)

    def _tell(self, store: Store, dataset: str) -> None:
        """Tell the holder, once, that several spellings of a name belong to one data set."""
        if spellings := store.history.untold(dataset):
            self._say(
                f"Note: {listing(spellings)} are one data set: all epsilon spent on it is added"
                " up, and every limit applies."
            )
            store.append([DataSetNamed(dataset=dataset)])

    def enter(
        self,
        dataset: DataSet,
        client: Store,
        reserved: RunReserved | PersonRunReserved | None,
        run_id: bytes,
        before: Callable[[Container[bytes]], None] = lambda _: None,
    ) -> Counted:
        """Write to the ledger, durably, the run that a client is about to join, and all other runs
        in the client's store. Return the content of the ledger, including the run.

        dataset : data set that the run is charged to.
        client : store of the client.
        reserved : event that reserves the run, or None if the client's store already has the run.
            The event is the next one that the store gets.
        run_id : id of the run.
        before : last check before a new run is counted, called with `History.counted` after all
            other checks. It may raise an error to refuse the run.

        Raises BudgetError if a limit is too low or the ledger does not contain the data set, and
        StateError if the run cannot be counted.
        """
        mine = own_run_id(run_id, client.identity)
        earlier = None if reserved is None else self._earlier_use(reserved.cost)
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
                        f"in {self.path}, run {run_id.hex()} is recorded with another plan, name"
                        " or data set, by a process that was killed before it joined; pass the same"
                        " plan, name and data set again, or give the run up with `fastlloyd ledger"
                        f" release {client.path} --run {run_id.hex()} --ledger {self.path}`"
                    )
            elif reserved is not None:
                admission.check_joining(after, client.history, dataset, reserved.cost)
                events.append(reserved)
            if reserved is not None:
                before(after.counted)
                events += self._note(mine)
            if events:
                store.append(events)
            self._tell(store, dataset.name)
            counted = self._counted(store)
        self._say_earlier_use(earlier)
        return counted

    def check_counts(self, dataset: DataSet, identity: bytes, run_id: bytes) -> None:
        """Check the name of the data set, unless the ledger already counts this run of the client.
        Raises BudgetError as `check_name` does.

        identity : public signing key of the client, 32 bytes.
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
    ) -> list[tuple[Account, Account]]:
        """Return each account of the data set (`ledger.Account`) twice, before and after a run of
        this cost. If the ledger already counts the run, both are equal. Nothing is written.

        Raises the error that `enter` would raise for a run that is not in the client's store.

        client : store of the client, or its path if it does not exist yet.
        identity : public signing key of the client, 32 bytes.
        cost : cost of the run.
        run_id : id of the run.
        """
        now, mine = self.history(), own_run_id(run_id, identity)
        if mine not in now.runs:
            self.check_name(dataset, now)
        known = client.history if isinstance(client, Store) else History(Role.CLIENT)
        if isinstance(client, Store):
            now = now.followed_by(news(now, client))
        elif (seen := now.peers.get(identity.hex())) is not None and seen.length:
            raise StateError(
                f"there is no store {client}, but the ledger remembers a store of this identity"
                f" with {n_events(seen.length)}: correct the path, {WAY_OUT}"
            )
        begun = now.runs.get(mine)
        if begun is not None and not begun.may_begin_again:
            # a process that was about to join the run was killed, and the run counts already
            self._check_open(begun, run_id)
            after = now
        else:
            admission.check_joining(now, known, dataset, cost)
            after = admission.followed_by_run(now, cost, "join", dataset.name)
        return admission.before_and_after(now, after, dataset.name)

    def _check_open(self, run: Run, run_id: bytes) -> None:
        if run.ended is not None:
            raise StateError(
                f"run {run_id.hex()} has ended, or was given up, in {self.path}; renew the plan for"
                " the next run"
            )

    def follow(self, client: Store, *, only_if_there: bool = False) -> None:
        """Add to the ledger the runs of a client's store, and the ends of runs, that the ledger
        lacks.

        only_if_there : whether to do nothing if there is no ledger.

        Raises StateError if the ledger cannot be used, or if the store is an old copy.
        """
        if only_if_there and not self.is_there():
            return
        with self.opened() as store:
            if events := taken_up(store, client):
                store.append(events)

    def release_unbegun(self, client: Store, run_id: bytes) -> bool:
        """End a run that the ledger counts but the client's store does not contain. Return whether
        there is such a run.

        Nothing of the run was sent: the process that began it was killed after it had reserved the
        run in the ledger.

        client : store of the client.
        run_id : id of the run.
        """
        mine = own_run_id(run_id, client.identity)
        if not self.is_there():
            return False
        with self.opened() as store:
            taken_up(store, client)  # raises if the store is an old copy
            run = store.history.runs.get(mine)
            joined = client.history.runs.get(run_id)
            never_joined = joined is None or joined.may_begin_again
            if not never_joined or run is None or not run.is_open:
                return False
            store.append([run.end(Outcome.ABORTED, "given up by its owner")])
        return True
