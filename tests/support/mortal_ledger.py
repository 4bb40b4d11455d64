"""A run whose clients have one holder, with one ledger: processes also die at the commits to
that.
"""

from collections.abc import Callable, Sequence
from typing import Any

from fastlloyd.federation.client_news import own_run_id
from fastlloyd.federation.protocol.actions import SERVER
from fastlloyd.federation.runs import DurableClient, DurableServer
from fastlloyd.federation.store import History, Role, Store, read
from fastlloyd.federation.store.events import Event
from federation import identity
from ledgers import knowing
from mortal_parties import AFTER, BEFORE, Killed, World

LEDGER = "the ledger"  # whose deaths are those of whoever commits to it


class LedgerWorld(World):
    """Whenever a process is gone, the ledger counts no less than any store does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ledger = knowing(self.folder / "holder" / "ledger.store")
        self.ledger_deaths, self.n_ledger_appends = set(self.deaths.get(LEDGER, ())), 0
        self.n_checks = 0

    def __enter__(self) -> "LedgerWorld":
        super().__enter__()
        mortal_append: Callable[..., None] = Store.append

        def append(store: Store, events: Sequence[Event], **more: Any) -> None:
            if store.role is not Role.HOLDER:
                mortal_append(store, events, **more)
                return
            number, self.n_ledger_appends = self.n_ledger_appends, self.n_ledger_appends + 1
            self._maybe_die((number, BEFORE))
            mortal_append(store, events, **more)
            self._maybe_die((number, AFTER))

        Store.append = append  # type: ignore[assignment,method-assign]  # World puts the genuine one back
        return self

    def _maybe_die(self, death: tuple[int, str]) -> None:
        if death in self.ledger_deaths:
            self.ledger_deaths.discard(death)
            self.died[LEDGER] += 1
            raise Killed

    def open(self, name: str, store: Store, **changes: Any) -> DurableClient | DurableServer:
        return super().open(
            name, store, **({} if name == SERVER else {"holder": self.ledger}) | changes
        )

    def _bury(self, name: str) -> None:
        super()._bury(name)
        self.check()

    def known(self) -> History:
        return self.ledger.history()

    def check(self) -> None:
        """What any client's store has charged, or keeps reserved, counts in the ledger too."""
        counted = {run_id: set(run.counted) for run_id, run in self.known().runs.items()}
        for name, mortal in self.parties.items():
            path = (
                mortal.path
                if mortal.store is not None
                else self.folder / name / str(mortal.n_lives + 1) / "party.store"
            )
            if mortal.role is Role.CLIENT and path.exists():
                for run_id, run in read(path)[0].history.runs.items():
                    assert set(run.counted) <= counted[own_run_id(run_id, identity(name).public)]
                    self.n_checks += 1
