"""Session of a client: it answers the server's messages, and refuses those that the protocol does
not allow.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from fastlloyd.dp.noise import NoiseSource
from fastlloyd.dp.repeatable import check_private
from fastlloyd.errors import FastLloydError, LocalProtocolError, PlanError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.actions import (
    SERVER,
    Action,
    ClientResult,
    Ended,
    Finish,
    Keep,
    Record,
    Send,
    Unfinished,
)
from fastlloyd.federation.protocol.client_phases import ClientPhase
from fastlloyd.federation.protocol.joining import Joining, MakeMasks
from fastlloyd.federation.protocol.messages import (
    Abort,
    AllReady,
    Broadcast,
    Confirmations,
    Hello,
    Message,
    Turn,
    decode_records,
    fits,
    message_digest,
    printable,
)
from fastlloyd.federation.protocol.own_keys import RUN_KEYS, Encapsulate
from fastlloyd.federation.protocol.roster import Roster
from fastlloyd.federation.protocol.rounds import ClientRounds
from fastlloyd.federation.protocol.transitions import (
    CLIENT_TRANSITIONS,
    ClientState,
    Deadline,
    Start,
)
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.federation.secagg.masks import GroupMasks, Secret
from fastlloyd.federation.secagg.pairs import RunKeys, encapsulate
from fastlloyd.mechanisms.answering import CappedRecords, Records


class ClientSession(Secret):
    """One client's part in one run. It handles messages of the server and returns actions.

    The session ends with a `ClientResult`, or refuses a message and sends nothing more. Messages
    come from `decode`. A message that was handled before changes nothing. If a message shows that
    an earlier message was lost, the client sends its last message again. Any other message that the
    protocol does not allow ends the run.

    Parameters
    ----------
    plan : Plan
        Plan of the run. The caller has compared its digest with the digest that the parties agreed
        on.
    name : str
        Name of this client in the plan.
    records : Records
        Grid points of the plan's domain, at most `max_records` of them.
    identity : Identity
        Private key of this client; its public half is in the plan.
    noise : NoiseSource
        Source of this client's share of the noise.
    random_bytes : callable
        Source of keys and nonces, in production `os.urandom`.
    encapsulate : callable
        Function that makes the secret of a pair of clients. Only tests pass another function.
    group_masks : callable
        Function that makes the masks from the group key. Only simulations pass another function.

    Attributes
    ----------
    outcome : ClientResult or Ended or None
        Outcome of the run for this client, or None until the run has ended.
    hello : Hello or None
        Hello of this client in this run, or None before it is made.
    state : ClientState
        State of the client in the run.

    Raises
    ------
    LocalProtocolError
        If the noise is repeatable, outside `testing.repeatable_noise`.
    PlanError
        If the name is not in the plan, the identity is another client's, or a signing key is
        missing.
    DataError
        If the records have another domain, or exceed the cap. The message shows no value.

    Examples
    --------
    >>> import os
    >>> from pathlib import Path
    >>> from fastlloyd import ClientSession, Plan
    >>> from fastlloyd.dp.noise import SystemNoise
    >>> from fastlloyd.federation.identity.identity import PrivateIdentity
    >>> from fastlloyd.mechanisms.answering import LocalRecords
    >>> plan = Plan.from_toml(Path("plan.toml").read_text())
    >>> domain = plan.mechanism.domain
    >>> records = LocalRecords(domain, domain.to_grid([[31.0, 2.0], [68.0, 4.5]]))
    >>> identity = PrivateIdentity.load(Path("a.identity.toml")).signing
    >>> session = ClientSession(
    ...     plan, "a", records, identity=identity, noise=SystemNoise(), random_bytes=os.urandom
    ... )
    >>> session.state.value
    'new'
    """

    __slots__ = (
        "_accepted",
        "_encapsulate",
        "_first_sent",
        "_group_masks",
        "_handled",
        "_last_sent",
        "_noise",
        "_owes_reply",
        "_phase",
        "_random_bytes",
        "_records",
        "_roster",
        "_unrecorded",
        "hello",
        "name",
        "outcome",
        "plan",
        "state",
    )

    def __init__(
        self,
        plan: Plan,
        name: str,
        records: Records,
        *,
        identity: Identity,
        noise: NoiseSource,
        random_bytes: Callable[[int], bytes],
        encapsulate: Encapsulate = encapsulate,
        group_masks: MakeMasks = GroupMasks,
    ) -> None:
        check_private(noise)
        client = plan.client(name)
        self._records = CappedRecords(
            records, plan.mechanism, partial(client.check_cap, unit=plan.mechanism.unit)
        )
        if identity.public.hex() != client.signing_key:
            raise PlanError(
                "the signing key of this identity is not the signing_key that the plan lists for"
                f" client {name!r}"
            )
        self.plan, self.name, self.state = plan, name, ClientState.NEW
        self.outcome: ClientResult | Ended | None = None
        self.hello: Hello | None = None
        self._noise, self._random_bytes = noise, random_bytes
        self._encapsulate, self._group_masks = encapsulate, group_masks
        self._roster = Roster.of(plan)
        # the identity is dropped once it has signed the Hello
        self._phase: Identity | Joining | ClientRounds | None = identity
        self._handled: set[bytes] = set()
        self._first_sent: list[Action] = []
        self._last_sent: list[Action] = []
        self._unrecorded: list[Action] = []
        self._accepted = b""  # digest of a Broadcast that is stored and not opened yet, or b""
        self._owes_reply = False

    @property
    def round(self) -> int:
        """Number of the open round, from 1. Before the first round it is 0; after the last,
        n_rounds + 1.
        """
        return self._phase.number if isinstance(self._phase, ClientRounds) else 0

    @property
    def last_included(self) -> int:
        """Last opened round whose sum contains this client's answer. Rounds are counted from 1. The
        number is 0 if there is no such round.
        """
        return self._phase.last_included if isinstance(self._phase, ClientRounds) else 0

    @property
    def progress(self) -> str:
        """Progress of this client, as text for readers."""
        n_rounds = self.plan.mechanism.n_rounds
        return (
            f"round {self.round} of {n_rounds}" if 1 <= self.round <= n_rounds else self.state.value
        )

    def start(self) -> list[Action]:
        """Draw keys for this run, and return the actions that store and send the Hello."""
        self._move(Start, ClientState.JOINING)
        secret = RunKeys.draw(self._random_bytes).private_bytes()
        self.hello = self._join({RUN_KEYS: secret})
        return [Keep(RUN_KEYS, secret), *self._speak()]

    def restore(self, kept: Mapping[str, bytes], recorded: Sequence[bytes]) -> None:
        """Restore the session from stored messages, in place of `start`: same state, same bytes to
        send again.

        Nothing that was stored is drawn, masked or computed again, and no data record is read. If
        the last message is a Broadcast, the client opens its sum now, because it never opens
        another sum of that round. If the sum cannot be opened, the run ends. Call `resume` next: it
        returns the actions that must then be made durable.

        Parameters
        ----------
        kept : secrets that the client stored, by name. Empty if they were wiped, as after an end
            without a result.
        recorded : bytes of all stored messages, in order and in whole steps. Only the answer to a
            last Broadcast may be missing.

        Raises
        ------
        LocalProtocolError : there are no messages, or they do not come from such a session. The
            session cannot be used then.
        """
        if not recorded:
            raise LocalProtocolError(
                "there are no entries of this run, so it never began: start the run"
            )
        messages = decode_records(recorded, self.plan)
        first, last = messages[0], messages[-1]
        with fits(1, first):
            self.hello = _own_hello(first, self._roster, self.name)
        if any(isinstance(message, Abort) for message in messages[:-1]):
            raise LocalProtocolError(
                "the entries of this run go on after an Abort, which ends a run"
            )
        if not isinstance(last, Abort):
            self._owes_reply = self._replay(kept, messages)
        elif kept:
            self._replay(kept, messages[:-1])
            self._end_early(last.reason)
            self._unrecorded = []
        else:
            self._end(last.reason)

    def _replay(self, kept: Mapping[str, bytes], messages: Sequence[Message]) -> bool:
        """Handle the stored messages again, beginning with this client's Hello. Return whether the
        client owes an answer to the last message.
        """
        self._move(Start, ClientState.JOINING)
        if self._join(kept) != messages[0]:
            raise LocalProtocolError("the kept keys are not the keys of the recorded Hello")
        owed = True  # whether the next message is this client's
        for position, message in enumerate(messages, 1):
            with fits(position, message):
                if owed:
                    self._recall(message)
                else:
                    self._take_again(message, is_last=position == len(messages))
            owed = not owed and self._speaks_after(message)
        if owed and not isinstance(messages[-1], Broadcast):
            kind = type(messages[-1]).__name__
            raise LocalProtocolError(
                f"the entries of this run end with {kind}, in the middle of a step"
            )
        return owed

    def accept(self, message: Message) -> list[Action]:
        """Return the actions that must be durable before `receive` is called with `message`.

        The list is empty, unless the client will open the sum in a Broadcast: then it has a Record
        of the Broadcast. So the client never opens two sums of one round, even if it restarts, and
        whatever the server then sends. This call opens nothing. A driver that cannot be interrupted
        may omit it, and `receive` then returns the Record.
        """
        digest = message_digest(message)
        match self._phase, message:
            case (ClientRounds() as rounds, Broadcast()) if (
                (self.state, Broadcast) in CLIENT_TRANSITIONS
                and digest not in self._handled
                and not self._now.is_early(message)
            ):
                with suppress(RemoteProtocolError):  # `receive` raises it again, and ends the run
                    rounds.included_in(message)
                    self._accepted = digest
                    return [Record(message)]
        return []

    def resume(self) -> list[Action]:
        """Return, after `restore`, the actions that answer the last message, or that follow from an
        end of the run. The list is empty if they were stored before.
        """
        owes_reply, self._owes_reply = self._owes_reply, False
        return self._speak() if owes_reply else self.ending()

    def receive(self, message: Message) -> list[Action]:
        """Handle a message of the server, and return the actions that answer it.

        Any error ends the run and returns no actions: `ending` then returns the actions that must
        be made durable. If `accept` stored the message, it is not stored again.

        Raises RemoteProtocolError if the server broke the protocol.
        """
        if isinstance(self.outcome, Ended) and isinstance(message, Abort):
            # the server sends the end of a run also to clients that it turned away before
            return []
        if isinstance(self.outcome, Ended):
            raise RemoteProtocolError(
                f"{type(message).__name__} came after the run had ended: {self.outcome.reason}"
            )
        digest = message_digest(message)
        if digest in self._handled:
            return []
        try:
            return self._answer(message, digest)
        except BaseException as error:
            if self.state is not ClientState.FINISHED:
                # errors of other libraries may quote values
                reason = (
                    str(error)
                    if isinstance(error, FastLloydError)
                    else f"an unexpected {type(error).__name__}"
                )
                self._unrecorded = self._end(reason)
            raise

    def ending(self) -> list[Action]:
        """Return the actions to make durable after an error of `receive` ended the run. A second
        call returns an empty list.

        After a RemoteProtocolError the driver must make them durable. After any other error it may
        omit them. Then the step never happened, and a session restored from the stored messages
        continues the run.
        """
        actions, self._unrecorded = self._unrecorded, []
        return actions

    def deadline(self) -> list[Action]:
        """Stop waiting for the server. If the run has not ended yet, it ends without a result."""
        if self.outcome is not None:
            return []
        reason = f"nothing came from the server in time while this client was {self.state.value}"
        self._move(Deadline, ClientState.ABORTED)
        return self._end_early(reason)

    def resend(self) -> list[Action]:
        """Return the actions that send the client's last message again, with the same bytes. The
        server then answers with the messages that this client missed.
        """
        return list(self._last_sent)

    def reconnect(self) -> list[Action]:
        """Return the actions to take on a new connection, after a break or a restart of either
        side: send the Hello and the last message again.
        """
        return list(dict.fromkeys([*self._first_sent, *self._last_sent]))

    @property
    def _now(self) -> ClientPhase:
        """Phase of this client. Raises AssertionError before the start and after the end."""
        if isinstance(self._phase, Identity) or self._phase is None:
            raise AssertionError(f"a client that is {self.state.value} is in no phase")
        return self._phase

    def _recall(self, said: Message) -> None:
        """Continue after a restart, with a message that the client sent in this state before. No
        new message is made.
        """
        self._now.recall(said)
        self._last_sent = [Send(SERVER, said)]
        self._first_sent = self._first_sent or self._last_sent

    def _speak(self) -> list[Action]:
        message = self._now.say()
        self._last_sent = [Send(SERVER, message)]
        self._first_sent = self._first_sent or self._last_sent
        return [*self._now.keep(), Record(message), *self._last_sent]

    def _speaks_after(self, message: Message) -> bool:
        return self.outcome is None and self._now.speaks_after(message)

    def _answer(self, message: Message, digest: bytes) -> list[Action]:
        if (self.state, type(message)) not in CLIENT_TRANSITIONS:
            raise RemoteProtocolError(
                f"{type(message).__name__} is not expected by a client that is {self.state.value}"
            )
        if self._is_late(message):
            return []
        if self._now.is_early(message):
            return self.resend()
        if isinstance(message, Abort):
            self._move(Abort, ClientState.ABORTED)
            return self._end_early(f"the server ended the run: {message.reason}")
        record: list[Action] = [] if digest == self._accepted else [Record(message)]
        self._take(message, digest)
        if self._speaks_after(message):
            return [*record, *self._speak()]
        return record if self.outcome is None else [*record, Finish(self.outcome)]

    def _take(self, message: Message, digest: bytes) -> None:
        """Change the state by a message of the server, which has just come or is read again after a
        restart.
        """
        match self._phase, message:
            case Joining() as joining, AllReady():
                self._phase = ClientRounds(
                    self.plan,
                    self._roster,
                    self.name,
                    self._records,
                    keys=joining.open(message),
                    noise=self._noise,
                    random_bytes=self._random_bytes,
                )
            case ClientRounds() as rounds, Broadcast():
                if self._accepted not in (b"", digest):
                    raise RemoteProtocolError(
                        f"another broadcast of round {message.round} was accepted and recorded"
                        " before"
                    )
                rounds.take(message)
                self._accepted = b""
            case ClientRounds() as rounds, Confirmations():
                self.outcome = rounds.conclude(message)
                self._forget()
            case _:
                self._now.take(message)
        to = ClientState.FINISHED if self._phase is None else self._now.state
        self._move(type(message), to)
        if not isinstance(message, Turn):
            # a Turn that comes again is answered again, because a restarted server asks again
            self._handled.add(digest)

    def _take_again(self, message: Message, *, is_last: bool) -> None:
        """Handle a message of the server that was stored before a restart.

        is_last : whether the message is the last stored one. If it is a Broadcast, its sum may
            never have been opened. If the sum cannot be opened now, the run ends.
        """
        is_known = (self.state, type(message)) in CLIENT_TRANSITIONS and not isinstance(
            message, Abort
        )
        if not is_known or self._is_late(message) or self._now.is_early(message):
            raise LocalProtocolError(
                f"a client that is {self.state.value} does not accept this message"
            )
        match self._phase, message:
            case ClientRounds() as rounds, Broadcast() if is_last:
                rounds.included_in(message)
                try:
                    self._take(message, message_digest(message))
                except RemoteProtocolError as error:
                    self._unrecorded = self._end(str(error))
            case _:
                self._take(message, message_digest(message))

    def _is_late(self, message: Message) -> bool:
        """Return whether this message is too late to change anything."""
        return self._phase is None or self._now.is_late(message)

    def _join(self, kept: Mapping[str, bytes]) -> Hello:
        match self._phase:
            case Identity() as identity:
                makers = self._random_bytes, self._encapsulate, self._group_masks
                self._phase = joining = Joining(
                    self.plan, self._roster, self.name, identity, kept, *makers
                )
                return joining.hello
        raise AssertionError("a session joins once, before anything else")

    def _move(self, event: type, to: ClientState) -> None:
        if to not in CLIENT_TRANSITIONS.get((self.state, event), ()):
            raise LocalProtocolError(
                f"{event.__name__} does not lead from {self.state.value} to {to.value}"
            )
        self.state = to

    def _end_early(self, reason: str) -> list[Action]:
        """End the run for a reason outside this client, and keep its last centroids."""
        return self._end(
            reason, self._phase.unfinished() if isinstance(self._phase, ClientRounds) else None
        )

    def _end(self, reason: str, unfinished: Unfinished | None = None) -> list[Action]:
        # the same text is shown now and after a restart, which reads it from the message
        reason = printable(reason)
        self.state, self.outcome = ClientState.ABORTED, Ended(reason, unfinished)
        self._forget()
        return [Record(Abort(reason)), Finish(self.outcome)]

    def _forget(self) -> None:
        """Drop the keys, the messages to send again, and the answer that the client owes."""
        self._phase, self._first_sent, self._last_sent, self._owes_reply = None, [], [], False


def _own_hello(first: Message, roster: Roster, name: str) -> Hello:
    """Return this client's Hello, the first of its stored messages of this run.

    Raises LocalProtocolError if `first` is another message.
    """
    own = (roster.plan_digest, roster.run_id, name)
    if not isinstance(first, Hello) or (first.plan_digest, first.run_id, first.name) != own:
        raise LocalProtocolError(
            f"the entries of client {name!r} must begin with its Hello of this run and plan"
        )
    return first
