"""Client of a run with durable steps: it sends only messages that follow from what is on disk."""

import time
from collections.abc import Container, Sequence
from contextlib import suppress
from typing import NamedTuple, Self

from fastlloyd.base.names import same
from fastlloyd.errors import LocalProtocolError, OldServerError, RemoteProtocolError, StateError
from fastlloyd.federation.admission import DataSet, check, reserve
from fastlloyd.federation.client_news import own_run_id
from fastlloyd.federation.fingerprint import Fingerprint
from fastlloyd.federation.fingerprint_file import FingerprintFile, Fingerprints
from fastlloyd.federation.holder import Counted, HoldersLedger
from fastlloyd.federation.ledger import plan_cost
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.protocol.actions import (
    Action,
    ClientResult,
    Ended,
    Finish,
    Keep,
    Record,
    Send,
)
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import Message, Upload
from fastlloyd.federation.protocol.roster import hello_digest, leave_statement
from fastlloyd.federation.protocol.transitions import ClientState
from fastlloyd.federation.runs.steps import Again, Clock, DurableParty, check_goes_on
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.federation.store import LogPosition, Role, Store
from fastlloyd.federation.store.events import (
    Event,
    ExchangeCharged,
    Outcome,
    PersonRunReserved,
    Reservation,
    RunEnded,
    RunReserved,
    n_events,
    recorded,
)


def own_runs(store: Store) -> dict[bytes, str]:
    """Return the data set of each run in a client's store, by the id under which a ledger knows the
    run.
    """
    return {
        own_run_id(run_id, store.identity): run.reserved.dataset
        for run_id, run in store.history.runs.items()
        if run.reserved is not None
    }


def counted_runs(store: Store) -> frozenset[bytes]:
    """Return the ids under which a ledger knows the runs that a client's store lists in
    `History.counted`.
    """
    return frozenset(own_run_id(run_id, store.identity) for run_id in store.history.counted)


class KnownRecords(NamedTuple):
    """Records of a client, recognised by their fingerprint.

    fingerprint : fingerprint of the records, made under the key of `known`.
    known : content of the file of fingerprints, with an entry for each run of the client's store
        (`FingerprintFile.complete`).
    file : file of fingerprints, in which new fingerprints are stored.
    """

    fingerprint: Fingerprint
    known: Fingerprints
    file: FingerprintFile

    def check_new(self, run_id: bytes, dataset: str, counted: Container[bytes]) -> None:
        """Raise BudgetError if one of the runs in `counted` used the same records under another
        name of the data set. Nothing is written.

        run_id, counted : as in `Fingerprints.check_name`.
        """
        self.known.check_name(dataset, self.fingerprint, run_id, counted)

    def check_same(self, run_id: bytes, shown: str) -> None:
        """Raise StateError unless the client's records are those with which the run began.

        run_id : id of the run in the ledger.
        shown : id of the run in its plan, for the error message.
        """
        self.known.check_same_records(run_id, shown, self.fingerprint)

    def keep(self, run_id: bytes, dataset: str, counted: Container[bytes]) -> None:
        """Write the fingerprint to disk durably, for a run that is about to be counted in the
        ledger.

        Parameters and errors are those of `FingerprintFile.note`.
        """
        self.file.note(run_id, dataset, self.fingerprint, self.known.hash_key, counted)


class DurableClient(DurableParty[ClientSession]):
    """Client in one run, for a transport (`transport.party.ClientParty`).

    Each step of the session is committed to the store in one transaction, before its messages are
    returned. For an upload the transaction also contains the charge in the ledger. The broadcast of
    a round is committed before its sum is opened. A result stays in the store until `conclude`, and
    so do the last centroids of a run that ends early. So if a process is killed before it has
    written them elsewhere, the next process finds them again.

    counted : ledger of the holder that counts the run, or None without such a ledger.
    """

    def __init__(
        self,
        session: ClientSession,
        store: Store,
        identity: Identity,
        clock: Clock = time.monotonic,
        holder: HoldersLedger | None = None,
    ) -> None:
        super().__init__(session, store, clock)
        self._identity, self._holder = identity, holder
        self.counted: Counted | None = None
        self._signed: SignedPosition | None = None

    @classmethod
    def join(
        cls,
        session: ClientSession,
        store: Store,
        identity: Identity,
        *,
        dataset: DataSet,
        records: KnownRecords,
        clock: Clock = time.monotonic,
        holder: HoldersLedger | None = None,
    ) -> Self:
        """Reserve the cost of the run on the data set and join the run, or continue it where an
        earlier process stopped.

        session : new session of this client.
        store : store of this client.
        identity : private key of this client.
        dataset : data set that the run is charged to.
        records : records of this client. Their fingerprint is kept before the run counts.
        clock : function that returns the time in seconds.
        holder : ledger of the records' holder, which counts all runs on the records, or None. The
            store counts only runs of this client.

        Raises
        ------
        BudgetError : a limit of the data set is too low, or the records are known under another
            name.
        StateError : the run has ended in this store, or was begun with another plan, name or
            records. Also if the plan knows more events of the store than it has, or if the
            fingerprint cannot be kept.
        PlanError, DataError : the session refuses the records.
        """
        store.check_owner(Role.CLIENT, identity.public)
        reserved = reservation(store, session.plan, session.name, dataset=dataset, records=records)
        client = cls(session, store, identity, clock, holder)

        def keep(counted: Container[bytes]) -> None:
            mine = own_run_id(client._run_id, store.identity)
            records.keep(mine, dataset.name, counted)

        if holder is not None:
            client.counted = holder.enter(dataset, store, reserved, client._run_id, keep)
        elif reserved is not None:
            keep(counted_runs(store))
        if reserved is not None:
            client._commit(session.start(), first=[reserved])
            if holder is not None:
                # The ledger learns the store's position before any answer is sent. From then on it
                # refuses older copies of the store.
                holder.follow(store)
        else:
            session.restore(store.secrets(client._run_id), store.messages(client._run_id))
            if session.outcome is not None:
                client._commit(session.resume())
        return client

    @property
    def outcome(self) -> ClientResult | Ended | None:
        """Outcome of the run for this client, or None while it goes on."""
        return self._session.outcome

    @property
    def position(self) -> SignedPosition:
        """Current position of the store, signed by this client."""
        now, signed = self._store.position, self._signed
        if signed is None or (signed.length, signed.head) != (now.length, now.head):
            self._signed = signed = SignedPosition.of(now.length, now.head, self._identity)
        return signed

    @property
    def farewell(self) -> tuple[bytes, bytes]:
        """Digest of the Hello with which this client joined (32 bytes), and the client's signature
        on a statement that its run has ended (64 bytes).

        Raises LocalProtocolError if the client never joined.
        """
        plan, name, hello = self._session.plan, self._session.name, self._session.hello
        if hello is None:
            raise LocalProtocolError("a client that never joined cannot leave")
        digest = hello_digest(hello)
        return digest, self._identity.sign(leave_statement(plan.digest, self._run_id, name, digest))

    @property
    def timeout(self) -> float | None:
        """Seconds that this client still waits for the server, or None without a limit."""
        session, plan, timeouts = self._session, self._session.plan, self._session.plan.timeouts
        # the clients that the server waits for may fail one after the other
        dealing = (plan.max_dropouts + 1) * (plan.patience + timeouts.round)
        allowed = {
            ClientState.NEW: timeouts.joining + dealing,
            ClientState.JOINING: timeouts.joining + dealing,
            ClientState.DEALING: dealing,
            ClientState.READY: dealing,
            ClientState.AGGREGATING: timeouts.round,
            ClientState.SETTLING: (
                plan.quorum(plan.n_clients).max_turns * timeouts.dealing + plan.patience
            ),
            ClientState.CONFIRMING: timeouts.confirming,
        }.get(session.state)
        return (
            None
            if allowed is None
            else self._timer.left((session.state, session.round), allowed + plan.grace)
        )

    def attached(self, log: LogPosition) -> None:
        """Compare this store with the position of the store that the server remembers.

        A server stores a sum, and the store positions of its clients, in one transaction. So the
        check looks at the last answer of this client that is in a sum. If the server remembers only
        a position from before this answer, the server has lost the sum. It would then draw other
        noise for the same sum.

        Raises OldStoreError if this store is an old copy, and OldServerError if the server's store
        is an old copy.
        """
        self._store.check_remembered(log, "the server")
        last = self._session.last_included
        charged = ExchangeCharged(run_id=self._run_id, number=max(last, 1))
        # length of the store when that answer could be sent, or 0 if there is no such answer
        answered = next(
            (at for at, event in enumerate(self._store.events(), 1) if last and event == charged), 0
        )
        if log.length < answered:
            raise OldServerError(
                f"the server's store is an old copy: it knows {n_events(log.length)} of this"
                " client's store, but the server has already used the client's answer from event"
                f" {answered}; restart the server with the newest copy of"
                " its store, or give the run up"
            )
        self._timer.begin_again(Again.OTHER_SIDE_CAME_BACK)

    def begin(self) -> list[Send | Finish]:
        """Return the actions to take on a new connection: send the Hello and the last messages,
        with the same bytes as before.

        If an earlier process owed an answer, this call makes it. That may take a long pass over the
        records, so it is done only once the server is connected.
        """
        self._check_footing()
        self._commit(self._session.resume())
        return [action for action in self._session.reconnect() if isinstance(action, Send)]

    def receive(self, message: Message) -> list[Send | Finish]:
        """Handle a message of the server, and return the actions that answer it.

        Raises RemoteProtocolError if the server broke the protocol. The run has then ended, and the
        store says so.
        """
        self._check_footing()
        self._commit(self._session.accept(message))
        try:
            actions = self._session.receive(message)
        except RemoteProtocolError:
            self._commit(self._session.ending())
            raise
        return self._commit(actions)

    def deadline(self) -> list[Send | Finish]:
        """Stop waiting. The run ends without a result."""
        self._check_footing()
        return self._commit(self._session.deadline())

    def conclude(self) -> None:
        """End the run, and wipe its keys and messages. Call this once the result is stored
        elsewhere.
        """
        if self._store.history.runs[self._run_id].ended is not None:
            return
        run = self._store.history.open_run(self._run_id)
        match self.outcome:
            case ClientResult():
                self._store.append([run.end(Outcome.FINISHED)])
            case Ended(reason):
                self._store.append([run.end(Outcome.ABORTED, reason)])
        self._tell_holder()

    def _commit(
        self, actions: Sequence[Action], first: Sequence[Event] = ()
    ) -> list[Send | Finish]:
        events, messages, secrets = list(first), [], {}
        for action in actions:
            match action:
                case Keep(name=name, secret=secret):
                    secrets[self._run_id, name] = secret
                case Record(message):
                    events.append(recorded(self._run_id, message))
                    messages.append(message)
                    if isinstance(message, Upload):
                        events.append(ExchangeCharged(run_id=self._run_id, number=message.round))
                case Finish(Ended(reason, None)):
                    events.append(
                        self._store.history.open_run(self._run_id).end(Outcome.ABORTED, reason)
                    )
                case _:
                    pass
        if events:
            self._append(events, messages, secrets)
        self._log.write(messages)
        if any(isinstance(event, RunEnded) for event in events):
            self._tell_holder()
        return [action for action in actions if isinstance(action, Send | Finish)]

    def _tell_holder(self) -> None:
        """Tell the holder's ledger that the run has ended. If this fails, the run counts in full
        until the ledger learns of its end.
        """
        if self._holder is not None:
            with suppress(StateError):
                self._holder.follow(self._store)


def check_may_join(store: Store, plan: Plan, name: str, *, dataset: DataSet) -> Reservation | None:
    """Return the event with which this client joined the run. Return None if it has not joined, or
    if the run ended for it before any budget was spent.

    Call this before a long pass over the records.

    Raises every error of `reservation` that does not depend on the records.
    """
    if (known := plan.client(name).store) is not None:
        store.check_remembered(LogPosition(known.length, bytes.fromhex(known.head)), "the plan")
    run = store.history.runs.get(bytes.fromhex(plan.run_id))
    if run is None:
        check(store.history, dataset.name, plan_cost(plan, dataset.rows_are))
        return None
    check_goes_on(run, " for this client")
    begun = run.reserved
    if begun is None or begun.plan_digest != plan.digest:
        raise StateError(
            f"run {plan.run_id} was begun with another plan that has the same run id; ask"
            " for the plan that was agreed"
        )
    if begun.client != name:
        raise StateError(f"run {plan.run_id} was begun as client {begun.client!r}, not as {name!r}")
    if same(begun.dataset) != same(dataset.name):
        raise StateError(
            f"run {plan.run_id} was begun with --dataset {begun.dataset}; pass the same name"
        )
    if run.may_begin_again:
        cost = plan_cost(plan, dataset.rows_are)
        if begun.cost != cost:
            raise StateError(
                f"run {plan.run_id} was begun with another value of --rows-are; use the same"
                " value (in Python, rows_are=...)"
            )
        check(store.history, dataset.name, cost)
        return None
    return begun


def reservation(
    store: Store, plan: Plan, name: str, *, dataset: DataSet, records: KnownRecords
) -> RunReserved | PersonRunReserved | None:
    """Return the event with which this client must join the run, or None if it has joined before
    and may continue. Nothing is stored.

    store : store of the client.
    plan : plan of the run.
    name : name of the client.
    dataset : data set that the run is charged to.
    records : records of the client.

    Raises BudgetError and StateError as `DurableClient.join` does.
    """
    begun = check_may_join(store, plan, name, dataset=dataset)
    mine = own_run_id(bytes.fromhex(plan.run_id), store.identity)
    if begun is None:
        records.check_new(mine, dataset.name, counted_runs(store))
        return reserve(
            store.history,
            plan,
            client=name,
            dataset=dataset.name,
            rows_are=dataset.rows_are,
        )
    records.check_same(mine, plan.run_id)
    return None
