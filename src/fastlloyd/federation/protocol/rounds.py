"""Phase of a client from the first query to the confirmed result: the client adds noise, masks its
uploads, and opens the sums.

The calls of the mechanism are those of `mechanisms/central.run`, one per message. `say` chooses the
client's next message, and `upload`, `propose` or `confirm` makes it.
"""

from collections.abc import Callable
from dataclasses import InitVar, dataclass

from fastlloyd.dp.noise import NoiseSource
from fastlloyd.errors import LocalProtocolError, OverflowRisk, RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.actions import ClientResult, Keep, Unfinished
from fastlloyd.federation.protocol.client_phases import not_handled, not_said
from fastlloyd.federation.protocol.joining import SharedKeys
from fastlloyd.federation.protocol.masked_round import MaskedRound, Plausible, extend_transcript
from fastlloyd.federation.protocol.messages import (
    Broadcast,
    Confirmation,
    Confirmations,
    Deal,
    KeyBox,
    Message,
    Parameters,
    Proposal,
    Turn,
    Upload,
)
from fastlloyd.federation.protocol.roster import Roster
from fastlloyd.federation.protocol.transitions import ClientState
from fastlloyd.federation.secagg.keys import Ending
from fastlloyd.federation.secagg.masks import UPLOAD_NONCE_BYTES, MaskContext, RoundContext
from fastlloyd.federation.secagg.sealing import SALT_BYTES, open_parameters, seal_parameters
from fastlloyd.mechanisms.answering import CappedRecords
from fastlloyd.mechanisms.doubt import is_doubtful
from fastlloyd.mechanisms.private_run import AnyRun, Found
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise


@dataclass(eq=False, repr=False)
class ClientRounds:
    """Phase of a client that shares keys with the others.

    In each round, first `say` (or `recall`) is called for the upload, and then `take` with the sum.
    If the next query needs parameters, `take` is then called with the parameters. If this client
    computes them itself, `say` (or `recall`) is called first.

    plan : the plan.
    roster : clients of the plan.
    name : name of this client.
    records : records of this client.
    keys : keys that it shares with the others.
    noise : source of its share of the noise.
    random_bytes : source of nonces and salts, in production `os.urandom`.
    """

    plan: Plan
    roster: Roster
    name: str
    records: InitVar[CappedRecords]
    keys: InitVar[SharedKeys]
    noise: InitVar[NoiseSource]
    random_bytes: InitVar[Callable[[int], bytes]]

    def __post_init__(
        self,
        records: CappedRecords,
        keys: SharedKeys,
        noise: NoiseSource,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        plan, present = self.plan, keys.key_set.names
        self._records, self._keys, self._noise, self._random_bytes = (
            records,
            keys,
            noise,
            random_bytes,
        )
        caps = {client.name: client.max_records for client in plan.clients}
        self._caps = {name: caps[name] for name in present}
        self._n_present, self._quorum = len(present), plan.quorum(len(present))
        self._plausible = Plausible.of(plan)
        self._transcript_hash = keys.transcript_hash
        self._included: list[tuple[str, ...]] = []
        self._doubtful: list[int] = []
        self._nonce = b""
        self._proposed = False
        self._mechanism: AnyRun = plan.mechanism
        self._state = self._mechanism.start()
        # last opened answer, while the parameters that follow from it have not come
        self._awaiting: tuple[Answer, AnswerNoise] | None = None
        self._enter_round()

    @property
    def number(self) -> int:
        """Number of the open round, from 1. The round for the loss, if there is one, is the last
        round. After the last round the number is n_rounds + 1.
        """
        return len(self._included) + 1

    @property
    def state(self) -> ClientState:
        """State of the client: it waits for parameters, for the sum of the open round or, after the
        last round, for confirmations.
        """
        if self._awaiting is not None:
            return ClientState.SETTLING
        return (
            ClientState.CONFIRMING
            if self.number > self._mechanism.n_rounds
            else ClientState.AGGREGATING
        )

    def say(self) -> Upload | Proposal | Confirmation:
        """Return the message for the state that the client has just entered. Call it once per
        state.
        """
        match self.state:
            case ClientState.AGGREGATING:
                return self.upload()
            case ClientState.SETTLING:
                return self.propose()
            case _:
                return self.confirm()

    def recall(self, said: Message) -> None:
        """Continue after a restart, with a message that the client made before. Call this instead
        of `say`.
        """
        match self.state, said:
            case ClientState.AGGREGATING, Upload(nonce=nonce):
                self._check_recalled(said)
                self._nonce = nonce
            case ClientState.SETTLING, Proposal():
                self._check_recalled(said)
                self._proposed = True
            case ClientState.CONFIRMING, Confirmation() if said == self.confirm():
                pass
            case _:
                raise not_said(self.state)

    def take(self, message: Message) -> None:
        """Handle a message with a sum, with parameters, or with a turn to propose parameters.

        Raises RemoteProtocolError if the client refuses the message.
        """
        match message:
            case Broadcast():
                self.open(message)
            case Parameters():
                self.settle(message)
            case Turn():
                pass
            case _:
                raise not_handled(message, self.state)

    def speaks_after(self, message: Message) -> bool:
        """Return whether the client answers this message.

        It answers all messages with one exception. After some sums, only the first client in the
        sum answers, with parameters, and the others wait for these.
        """
        is_first = bool(self._included) and self._included[-1][0] == self.name
        is_asked = isinstance(message, Turn) or is_first
        return self.state is not ClientState.SETTLING or is_asked

    def is_late(self, message: Message) -> bool:
        """Return whether this message belongs to an earlier phase. Such a message changes
        nothing.
        """
        return isinstance(message, Deal | KeyBox)

    def is_early(self, message: Message) -> bool:
        """Return whether this message belongs to a later step, which shows that an earlier message
        was lost.
        """
        match message:
            case Broadcast():
                first = self.number + (self.state is not ClientState.SETTLING)
                return first <= message.round <= self.plan.mechanism.n_rounds
            case Parameters():
                return self.number < message.round
            case Turn():
                # early, late or answered before: in all three cases the last message is sent again
                is_awaited = self._awaiting is not None and message.round == self.number
                return not is_awaited or self._proposed
            case Confirmations():
                return self.state is not ClientState.CONFIRMING
        return False

    def keep(self) -> list[Keep]:
        """Return an empty list: no secrets are made in this phase."""
        return []

    @property
    def last_included(self) -> int:
        """Last opened round whose sum contains this client's answer. Rounds are counted from 1. The
        number is 0 if there is no such round.
        """
        return max(
            (number for number, names in enumerate(self._included, 1) if self.name in names),
            default=0,
        )

    def upload(self) -> Upload:
        """Return the client's exact answer plus its share of the noise, masked.

        Each call draws noise, so call it once per round.
        """
        round = self._mechanism.all_rounds[self.number - 1]
        values = self._records.answer(self._query) + self.plan.draw_client_noise(
            round, self._noise, self._n_present
        )
        self._nonce = self._random_bytes(UPLOAD_NONCE_BYTES)
        return Upload(self.number, self._nonce, self._masked.hide(values, self.name, self._nonce))

    def _check_recalled(self, said: Upload | Proposal) -> None:
        if said.round != self.number:
            raise LocalProtocolError(
                f"{type(said).__name__} belongs to round {said.round}; expected round {self.number}"
            )

    def included_in(self, broadcast: Broadcast) -> dict[str, bytes]:
        """Return the nonce of each client in the sum, by name, without opening the sum.

        Raises RemoteProtocolError if the client does not wait for this sum.
        """
        what = f"the broadcast of round {broadcast.round}"
        if broadcast.round != self.number or self._awaiting is not None:
            raise RemoteProtocolError(
                f"{what} is neither the broadcast of the open round, {self.number}, nor one"
                " that came before"
            )
        included = broadcast.included(self.roster.names)
        self.roster.check_members(what, list(included), self._caps, self._quorum.needed)
        if included.get(self.name, self._nonce) != self._nonce:
            raise RemoteProtocolError(
                f"{what} names an upload that client {self.name!r} did not make"
            )
        return included

    def open(self, broadcast: Broadcast) -> None:
        """Unmask the sum. Then enter the next round, unless it needs parameters, which a client
        must compute first.

        Raises RemoteProtocolError if the client does not wait for this sum, or if the sum cannot be
        unmasked.
        """
        included, index = self.included_in(broadcast), self.number - 1
        round = self._mechanism.all_rounds[index]
        total = self._masked.open(broadcast.payload, included, self.plan.n_words(round))
        answer = total.reshape(self._mechanism.shape(round))
        capped = sum(map(self._caps.__getitem__, included))
        # n_records is smaller only in a simulation
        n_records = min(capped, self._mechanism.n_records)
        self._plausible.check(answer, n_records, self.number)
        self._included.append(tuple(included))
        self._transcript_hash = extend_transcript(self._transcript_hash, broadcast)
        n_first = sum(map(self._caps.__getitem__, self._included[0]))
        share = capped / n_first if n_first else 1.0  # caps may be 0
        noise = AnswerNoise(deviations=self.plan.deviations(round, len(included)), share=share)
        if is_doubtful(
            self._mechanism, round, answer, n_records, noise, self.plan.n_draws(len(included))
        ):
            self._doubtful.append(index + 1)
        if self._mechanism.travelling_bytes(index):
            self._awaiting = answer, noise
        else:
            self._state = self._mechanism.advance(index, self._state, answer, noise)
            self._enter_round()

    def propose(self) -> Proposal:
        """Return the parameters of the next query, sealed. Each call draws random bytes, so call it
        once per round.

        Raises LocalProtocolError if no opened sum awaits parameters.
        """
        if self._awaiting is None:
            raise LocalProtocolError("there is no new answer to compute the next parameters from")
        m, index = self._mechanism, self.number - 2
        data = m.write_state(index, m.advance(index, self._state, *self._awaiting))
        salt = self._random_bytes(SALT_BYTES)
        box = seal_parameters(self._keys.group_key, self._context(), self.name, salt, data)
        self._proposed = True
        signature = self._keys.own.sign(
            self._keys.key_set.proposal(self.name, self.number, salt, box)
        )
        return Proposal(self.number, salt, box, signature)

    def settle(self, parameters: Parameters) -> None:
        """Continue from the parameters that the server relayed. Parameters that the client accepted
        earlier are never replaced.

        Raises RemoteProtocolError if the parameters are not expected, not signed, or invalid.
        """
        if parameters.round != self.number or self._awaiting is None:
            raise RemoteProtocolError(
                f"parameters for round {parameters.round} were not expected; the parameters"
                " accepted earlier are kept"
            )
        self.roster.check_members("the maker of the parameters", [parameters.client], self._caps, 0)
        self._keys.key_set.check_parameters(parameters)
        client, salt, box = parameters.client, parameters.salt, parameters.box
        plain = open_parameters(self._keys.group_key, self._context(), client, salt, box)
        try:
            self._state = self._mechanism.read_state(
                self.number - 2, self._state, *self._awaiting, plain
            )
        except OverflowRisk as error:
            raise RemoteProtocolError(
                f"the parameters of client {parameters.client!r} are refused: {error}"
            ) from None
        self._transcript_hash = extend_transcript(self._transcript_hash, parameters)
        self._proposed, self._awaiting = False, None
        self._enter_round()

    def confirm(self) -> Confirmation:
        """Return the client's confirmation of the transcript and of its result."""
        mac = self._ending(self._found()).confirmation(self.name)
        return Confirmation(
            mac, self._keys.own.sign(self._keys.key_set.confirmation(self.name, mac))
        )

    def conclude(self, confirmations: Confirmations) -> ClientResult:
        """Return the result, if enough clients of the last round confirmed it, and none confirmed
        another result.

        A dishonest server cannot make two groups of this size accept different results, under the
        conditions of `Masks.quorum`.

        Raises RemoteProtocolError otherwise, or if a confirmation is not signed by its client.
        """
        found, last = self._found(), self._included[-1]
        names = [name for name, _, _ in confirmations.confirmed]
        self.roster.check_members("the list of confirmations", names, self._caps, 0)
        for name, mac, signature in confirmations.confirmed:
            self._keys.key_set.check_confirmation(name, Confirmation(mac, signature))
        if others := self._ending(found).differing(
            {name: mac for name, mac, _ in confirmations.confirmed}
        ):
            raise RemoteProtocolError(
                f"client {others[0]!r} ended the run with different messages or different"
                " centroids; do not use this result"
            )
        confirmed = {self.name, *names}
        unconfirmed = tuple(name for name in last if name not in confirmed)
        if len(last) - len(unconfirmed) < (needed := self._quorum.confirmations):
            raise RemoteProtocolError(
                f"{len(last) - len(unconfirmed)} clients of the last round confirmed the result; at"
                f" least {needed} are needed"
            )
        included, doubtful = tuple(self._included), tuple(self._doubtful)
        return ClientResult(
            found=found, included=included, unconfirmed=unconfirmed, doubtful=doubtful
        )

    def unfinished(self) -> Unfinished | None:
        """Return the last centroids of a run that ends early, or None if there are none.

        A last sum is left out if the parameters that are computed from it never arrived.
        """
        settled = self._included[: len(self._included) - (self._awaiting is not None)]
        centroids = self._mechanism.centroids(len(settled), self._state) if settled else None
        if centroids is None:
            return None
        doubtful = tuple(number for number in self._doubtful if number <= len(settled))
        return Unfinished(centroids=centroids, included=tuple(settled), doubtful=doubtful)

    def _found(self) -> Found:
        if self.state is not ClientState.CONFIRMING:
            raise LocalProtocolError(
                "a client confirms its result after the last round, not before"
            )
        found: Found = self._mechanism.result(self._state)
        return found

    def _ending(self, found: Found) -> Ending:
        return Ending(self._keys.group_key, self._context(), found.digest)

    def _context(self) -> RoundContext:
        return RoundContext(
            plan_digest=self.roster.plan_digest,
            run_id=self.roster.run_id,
            round=self.number,
            transcript_hash=self._transcript_hash,
        )

    def _enter_round(self) -> None:
        """Prepare the query of the open round, if there is one."""
        if self.state is ClientState.CONFIRMING:
            return
        self._query = query = self._mechanism.query(self.number - 1, self._state)
        context = MaskContext(
            plan_digest=self.roster.plan_digest,
            run_id=self.roster.run_id,
            round=self.number,
            transcript_hash=self._transcript_hash,
            centroids_digest=query.digest,
        )
        self._masked = MaskedRound(self._keys.masks, context, self.plan.ring)
