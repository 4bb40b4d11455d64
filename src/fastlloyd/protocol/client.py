"""A client's side of a run: what it answers to each message of the server, and what it refuses."""

from collections.abc import Callable

from fastlloyd.clustering.domain import GridArray
from fastlloyd.dp.noise import NoiseSource
from fastlloyd.errors import DataError, LocalProtocolError, PlanError, RemoteProtocolError
from fastlloyd.plan import Plan
from fastlloyd.protocol.actions import SERVER, Action, Ended, Finish, Record, Send
from fastlloyd.protocol.client_rounds import ClientRounds
from fastlloyd.protocol.joining import Joining
from fastlloyd.protocol.messages import Abort, Broadcast, ClientMessage, Confirmations, Deal, KeyBox, Message, message_digest
from fastlloyd.protocol.roster import Roster
from fastlloyd.protocol.transitions import CLIENT_TRANSITIONS, ClientState, Deadline, Start
from fastlloyd.secagg.keys import Identity
from fastlloyd.secagg.masks import GroupKey


class ClientSession:
    """One client in one run: messages in, actions out. It ends with a `ClientResult`, or refuses and never sends again.

    Messages come from `decode`. One that was handled already changes nothing; one that shows that an earlier one was lost is
    answered by saying again where this client is; any other that the protocol does not allow ends the run.

    Parameters
    ----------
    plan : the plan, whose digest the caller has compared with the one it was given.
    name : who this is in the plan.
    X : int64 (n, n_features), grid points inside the domain (`Domain.to_grid`), at most `max_records` of them.
    identity : the key whose public half stands in the plan.
    noise : where this client's share of the noise comes from; the records are protected only if it is private.
    random_bytes : fresh bytes for keys and nonces, in production `os.urandom`.

    Raises
    ------
    PlanError : the name is not in the plan, the identity is not that client's, or a signing key is missing.
    DataError : the records have another dtype or shape, leave the domain, or are more than the cap. No value is shown.
    """

    __slots__ = (
        "_X",
        "_handled",
        "_hello",
        "_last_sent",
        "_noise",
        "_phase",
        "_random_bytes",
        "_reason",
        "_roster",
        "name",
        "plan",
        "state",
    )

    def __init__(
        self,
        plan: Plan,
        name: str,
        X: GridArray,
        *,
        identity: Identity,
        noise: NoiseSource,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        _check_grid_points(plan, name, X)
        if identity.public.hex() != plan.client(name).signing_key:
            raise PlanError(f"this identity is not the one whose signing_key the plan lists for client {name!r}")
        self.state = ClientState.NEW
        self.name = name
        self.plan, self._X, self._noise, self._random_bytes = plan, X, noise, random_bytes
        self._roster = Roster.of(plan)
        joining = Joining(self._roster, name, identity, random_bytes)
        self._hello = joining.hello
        self._phase: Joining | ClientRounds | None = joining
        self._handled: set[bytes] = set()
        self._last_sent: list[Action] = []
        self._reason = ""

    def start(self) -> list[Action]:
        """Say Hello."""
        self._move(Start, ClientState.JOINING)
        return self._say(self._hello)

    def receive(self, message: Message) -> list[Action]:
        """Answer the server. RemoteProtocolError says what it did wrong and, like any other error, ends the run."""
        if self.state is ClientState.ABORTED:
            raise RemoteProtocolError(f"{type(message).__name__} came after the run had ended: {self._reason}")
        digest = message_digest(message)
        if digest in self._handled:
            return []
        try:
            return self._answer(message, digest)
        except BaseException as error:
            if self.state is not ClientState.FINISHED:
                self._end(str(error))
            raise

    def deadline(self) -> list[Action]:
        """Stop waiting: the run ends without a result, if it has not ended yet."""
        if self.state in (ClientState.FINISHED, ClientState.ABORTED):
            return []
        reason = f"nothing came from the server in time while this client was {self.state.value}"
        self._move(Deadline, ClientState.ABORTED)
        return self._end(reason)

    def resend(self) -> list[Action]:
        """Send again what was sent last, the same bytes; the server answers with what this client missed."""
        return list(self._last_sent)

    def _answer(self, message: Message, digest: bytes) -> list[Action]:
        if (self.state, type(message)) not in CLIENT_TRANSITIONS:
            raise RemoteProtocolError(f"{type(message).__name__} is not expected by a client that is {self.state.value}")
        if self._is_early(message):
            return self.resend()
        actions = self._handle(message)
        self._handled.add(digest)
        return actions

    def _handle(self, message: Message) -> list[Action]:
        match self._phase, message:
            case Joining() as joining, Deal():
                self._move(Deal, ClientState.DEALING)
                sealed = joining.deal(message)
                return [Record(sealed), *self._say(sealed)]
            case Joining() as joining, KeyBox():
                self._move(KeyBox, ClientState.AGGREGATING)
                self._phase = rounds = self._begin(message, joining.open(message))
                return [Record(message), *self._upload(rounds)]
            case ClientRounds() as rounds, Broadcast():
                rounds.open(message)
                if not rounds.is_done:
                    self._move(Broadcast, ClientState.AGGREGATING)
                    return self._upload(rounds)
                self._move(Broadcast, ClientState.CONFIRMING)
                return self._say(rounds.confirm())
            case ClientRounds() as rounds, Confirmations():
                result = rounds.conclude(message)
                self._move(Confirmations, ClientState.FINISHED)
                self._forget()
                return [Finish(result)]
            case _, Abort():
                self._move(Abort, ClientState.ABORTED)
                return self._end(f"the server ended it: {message.reason}")
        raise AssertionError(f"{type(message).__name__} stands in the table for {self.state.value}, but nothing handles it")

    def _is_early(self, message: Message) -> bool:
        """Whether this belongs to a later step of the run, so that something before it was lost."""
        match self._phase, message:
            case Joining(), Broadcast() | Confirmations():
                return True
            case ClientRounds() as rounds, Broadcast():
                return rounds.number < message.round <= len(self.plan.mechanism.exchanges)
            case ClientRounds() as rounds, Confirmations():
                return not rounds.is_done
        return False

    def _begin(self, keys: KeyBox, group_key: GroupKey) -> ClientRounds:
        return ClientRounds(
            self.plan,
            self._roster,
            self.name,
            self._X,
            keys=keys,
            group_key=group_key,
            noise=self._noise,
            random_bytes=self._random_bytes,
        )

    def _upload(self, rounds: ClientRounds) -> list[Action]:
        upload = rounds.upload()
        return [Record(upload), *self._say(upload)]

    def _say(self, message: ClientMessage) -> list[Action]:
        self._last_sent = [Send(SERVER, message)]
        return self.resend()

    def _move(self, event: type, to: ClientState) -> None:
        if to not in CLIENT_TRANSITIONS.get((self.state, event), ()):
            raise LocalProtocolError(f"{event.__name__} does not lead from {self.state.value} to {to.value}")
        self.state = to

    def _end(self, reason: str) -> list[Action]:
        self.state, self._reason = ClientState.ABORTED, reason
        self._forget()
        return [Finish(Ended(reason))]

    def _forget(self) -> None:
        """Drop the keys, and what could be sent again."""
        self._phase, self._last_sent = None, []


def _check_grid_points(plan: Plan, name: str, X: GridArray) -> None:
    cap = plan.client(name).max_records
    plan.mechanism.domain.check_grid(X)
    if len(X) > cap:
        raise DataError(
            f"client {name!r} has more records than its cap, max_records {cap}; "
            "agree on a higher cap, or leave records out at random"
        )
