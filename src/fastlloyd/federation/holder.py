"""The ledger of one holder of records: one file that counts every run on them, however it was
begun.

A run of the central model is charged whole before its first noise is drawn; what it hands back
afterwards was never drawn. A run that a client joins is reserved here before it is in the client's
store, which keeps what each exchange needs, and ends here once it has ended there. So whenever a
process dies, the ledger counts no less than was answered. The file is held for as long as one step
takes: other processes wait their turn.
"""

import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from fastlloyd.errors import StateError
from fastlloyd.federation.admission import DataSet, check, check_names, reservation_of
from fastlloyd.federation.ledger import Account, account, sums_on
from fastlloyd.federation.store import files
from fastlloyd.federation.store.costs import PlannedCost
from fastlloyd.federation.store.durable import Store, read
from fastlloyd.federation.store.events import (
    Event,
    ExchangeCharged,
    HandedBack,
    Outcome,
    PeerSeen,
    PersonRunReserved,
    Role,
    RunCharged,
    RunEnded,
    RunReserved,
    TakenOver,
)
from fastlloyd.federation.store.files import SUFFIX, make_folder, store_path
from fastlloyd.federation.store.history import History, Run

VARIABLE: Final = "FASTLLOYD_LEDGER"
PATIENCE: Final = 60.0  # seconds; a step takes a fraction of one
_NO_FINGERPRINT: Final = bytes(32)
_WAY_OUT: Final = "bring back the newest copy, or make a new identity (docs/how-to/ledger.md)"
_RUN_LABEL: Final = b"fastlloyd/v1/run-of-a-client\0"

Say = Callable[[str], None]


def state_folder() -> Path:
    """The folder of this user's state; it may not be there yet. Raises RuntimeError if the user has
    no home.
    """
    if sys.platform == "win32":
        kept = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        kept = Path.home() / "Library" / "Application Support"
    else:
        kept = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(kept) / "fastlloyd"


def place(named: Path | None = None) -> Path:
    """Where the ledger is: where it is said to be, or where the variable says, or in the user's
    state folder.
    """
    try:
        if named is None and (said := os.environ.get(VARIABLE)):
            named = Path(said).expanduser()
            if not named.is_absolute():
                raise StateError(
                    f"{VARIABLE} is {said!r:.80}; expected a full path, so that all folders have"
                    " the same ledger"
                )
        if named is None:
            return state_folder() / f"ledger{SUFFIX}"
    except RuntimeError:
        raise StateError(
            f"there is no such home folder for a ledger; name a file with --ledger or {VARIABLE}"
        ) from None
    if re.match(r"[a-z][a-z0-9+.-]+:/", str(named)):
        raise StateError(f"the ledger is {str(named)!r:.80}; expected a file on this machine")
    if named.is_dir():
        raise StateError(
            f"the ledger is {str(named)!r:.80}, a folder; name a file in it, such as ledger{SUFFIX}"
        )
    return store_path(named)


class Charge:
    """A run of the central model that was charged whole. sums : what was spent on its data set,
    with it.
    """

    def __init__(self, sums: list[Account]) -> None:
        self.sums, self.n_drawn = sums, 0

    def drawing(self, number: int) -> None:
        """Hear that noise is about to be drawn for the round of that number, from 0."""
        self.n_drawn = max(self.n_drawn, number + 1)


class HoldersLedger:
    """The ledger at `path`, made when it is first needed; say : tells its holder that it was."""

    def __init__(self, path: Path, say: Say = lambda _: None) -> None:
        self.path, self._say = path, say

    def opened(self) -> Store:
        """Open the ledger, once no other process has it; it is there then. Raises StateError."""
        if not self.is_there():
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
        return Store.open(self.path, role=Role.HOLDER, patience=PATIENCE)

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
        if not self.is_there():
            return History(Role.HOLDER)
        contents, _ = read(self.path)
        if contents.role is not Role.HOLDER:
            raise StateError(f"{self.path} is {contents.role.store}; expected {Role.HOLDER.store}")
        return contents.history

    @contextmanager
    def charged(
        self, dataset: DataSet, cost: PlannedCost, *ahead: PlannedCost, by: str, digest: bytes
    ) -> Iterator[Charge]:
        """Charge a whole run to a data set, durably; whatever is drawn inside is counted then.

        ahead : what is to follow, and must fit too; it is charged later. by : what runs it, a word.
        digest : of its settings. If what is inside fails, rounds that it never told the charge of
        are handed back. Raises BudgetError if a limit does not hold it, StateError if it cannot be
        made durable; nothing is spent then.
        """
        name, run_id = dataset.name, os.urandom(16)
        with self.opened() as store:
            check_names(dataset, cost, store.history)
            check(store.history, name, cost, *ahead)
            whole = reservation_of(
                cost,
                run_id=run_id,
                digest=digest,
                client=by,
                dataset=name,
                fingerprint=_NO_FINGERPRINT,
            )
            store.append([whole, RunCharged(run_id=run_id)])
            charge = Charge(
                [
                    account(store.history, name, speaks_of=each)
                    for each in sums_on(store.history, name)
                ]
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

    def enter(
        self,
        dataset: DataSet,
        client: Store,
        reserved: RunReserved | PersonRunReserved | None,
        run_id: bytes,
    ) -> None:
        """Count a run that a client is about to join, durably, and whatever else its store knows.

        reserved : what the client's store is to hold next; None if it holds the run. Raises
        BudgetError and StateError as `charged`.
        """
        mine = own_run_id(run_id, client.identity)
        with self.opened() as store:
            events = _up_to_date(store, client)
            after = store.history.followed_by(events)
            if reserved is not None:
                reserved = reserved.under(mine)
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

    def check_names(self, dataset: DataSet, client: History, cost: PlannedCost) -> None:
        """Raise BudgetError if neither the ledger nor the client's store knows such a name, and one
        of them knows others.
        """
        check_names(dataset, cost, self.history(), client)

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
        now = self.history()
        known = client.history if isinstance(client, Store) else History(Role.CLIENT)
        if isinstance(client, Store):
            now = now.followed_by([*_news(now, known, identity), *_seen(now, client)])
        elif (seen := now.peers.get(identity.hex())) is not None and seen.length:
            raise StateError(
                f"there is no store {client}, and the ledger saw {seen.length} events of the one of"
                f" this identity: correct the path, {_WAY_OUT}"
            )
        begun = now.runs.get(own_run_id(run_id, identity))
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
            if events := _up_to_date(store, client):
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
            _up_to_date(store, client)  # refuses an old copy
            run = store.history.runs.get(mine)
            joined = client.history.runs.get(run_id)
            never_joined = joined is None or joined.may_begin_again
            if not never_joined or run is None or not run.is_open:
                return False
            store.append([run.end(Outcome.ABORTED, "given up by its owner")])
        return True


def own_run_id(run_id: bytes, identity: bytes) -> bytes:
    """How a ledger calls the run that this client joined: several clients of one holder may be in
    one run.
    """
    return hashlib.sha256(_RUN_LABEL + identity + run_id).digest()[:16]


def _check_joining(ledger: History, client: History, dataset: DataSet, cost: PlannedCost) -> None:
    check_names(dataset, cost, ledger, client)
    check(ledger, dataset.name, cost)


def _up_to_date(ledger: Store, client: Store) -> list[Event]:
    """The events that bring a ledger up to a client's store.

    Raises StateError for an old copy, but not before what only this copy knows to be spent is
    counted: some have answers that others have not.
    """
    news = [*_news(ledger.history, client.history, client.identity)]
    try:
        return [*news, *_seen(ledger.history, client)]
    except StateError:
        if more := [event for event in news if not isinstance(event, RunEnded)]:
            ledger.append(more)
        raise


def _news(ledger: History, client: History, identity: bytes) -> Iterator[Event]:
    """The events that bring a ledger up to what a client's store knows of its runs."""
    for run_id, run in client.runs.items():
        mine = own_run_id(run_id, identity)
        known = ledger.runs.get(mine)
        if known is None and run.reserved is not None:
            yield run.reserved.under(mine)
            yield TakenOver(run_id=mine)
        elif known is not None and known.may_begin_again and run.reserved and run.ended is None:
            yield run.reserved.under(mine)  # it began again, counted elsewhere
            known = None
        is_over = known is not None and known.ended is not None
        if run.ended is not None or is_over:
            charged = () if known is None else known.charged
            yield from (
                ExchangeCharged(run_id=mine, number=number)
                for number in run.charged
                if number not in charged
            )
        if run.ended is not None and not is_over:
            yield RunEnded(
                run_id=mine,
                outcome=run.ended.outcome,
                reason=run.ended.reason,
                released=run.ended.released,
            )


def _seen(ledger: History, client: Store) -> Iterator[Event]:
    """How much of the client's store there is now. Raises StateError if the ledger saw more of it,
    or other events.
    """
    name, now = client.identity.hex(), client.position
    known = ledger.peers.get(name)
    if known is not None and (
        known.length > now.length or client.head_at(known.length) != known.head
    ):
        raise StateError(
            f"{client.path} is an old copy, or was made anew: the ledger saw {known.length} events"
            f" of it, and it holds {now.length}; {_WAY_OUT}"
        )
    if known != now:
        yield PeerSeen(name=name, position=now)
