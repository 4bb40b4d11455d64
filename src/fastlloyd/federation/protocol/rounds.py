"""The rounds of one client, from the first query to the confirmed result: noised, masked and
unmasked.

The calls are those of `mechanisms/central.run`, one per message. What a client sends is chosen by
`ClientSession._say`, and made by `upload`, `propose` and `confirm`.
"""

from collections.abc import Callable
from dataclasses import InitVar, dataclass

from fastlloyd.dp.noise import NoiseSource
from fastlloyd.errors import LocalProtocolError, OverflowRisk, RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.actions import ClientResult, Unfinished
from fastlloyd.federation.protocol.joining import SharedKeys
from fastlloyd.federation.protocol.masked_round import (
    MaskedRound,
    Plausible,
    extend_transcript,
)
from fastlloyd.federation.protocol.messages import (
    Broadcast,
    Confirmation,
    Confirmations,
    Parameters,
    Proposal,
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
    """A client's part of a run once it shares keys with the others.

    In each round `upload` (or `recall`) is called once, then `open`; where the next query needs
    parameters, `settle` follows, with `propose` (or `recall`) before it if this client works them
    out.
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
        self._awaiting: tuple[Answer, AnswerNoise] | None = (
            None  # opened, and the state after it has not come yet
        )
        self._enter_round()

    @property
    def number(self) -> int:
        """The round that is open, from 1, that of the loss being the last; one more than there are
        when all are done.
        """
        return len(self._included) + 1

    @property
    def state(self) -> ClientState:
        """What the client waits for: parameters, the sum of the open round or, after the last
        round, confirmations.
        """
        if self._awaiting is not None:
            return ClientState.SETTLING
        return (
            ClientState.CONFIRMING
            if self.number > self._mechanism.n_rounds
            else ClientState.AGGREGATING
        )

    def is_to_propose(self, round: int) -> bool:
        """Whether parameters of that round are awaited that this client has not worked out yet."""
        return self._awaiting is not None and round == self.number and not self._proposed

    @property
    def leads(self) -> bool:
        """Whether this client is the one that works out parameters without being asked: the first
        in the last sum.
        """
        return self._included[-1][0] == self.name

    @property
    def last_included(self) -> int:
        """The last round that was opened whose sum holds this client's answer; 0 if there is
        none.
        """
        return max(
            (number for number, names in enumerate(self._included, 1) if self.name in names),
            default=0,
        )

    def upload(self) -> Upload:
        """The client's exact answer plus its share of the noise, masked. Draws noise: to be called
        once per round.
        """
        round = self._mechanism.all_rounds[self.number - 1]
        values = self._records.answer(self._query) + self.plan.draw_client_noise(
            round, self._noise, self._n_present
        )
        self._nonce = self._random_bytes(UPLOAD_NONCE_BYTES)
        return Upload(self.number, self._nonce, self._masked.hide(values, self.name, self._nonce))

    def recall(self, said: Upload | Proposal) -> None:
        """Take what was said in this round before a restart: nothing is drawn, worked out or masked
        anew, no record is read.
        """
        if said.round != self.number:
            raise LocalProtocolError(
                f"{type(said).__name__} of round {said.round} stands where that of round"
                f" {self.number} belongs"
            )
        match said:
            case Upload():
                self._nonce = said.nonce
            case Proposal():
                self._proposed = True

    def included_in(self, broadcast: Broadcast) -> dict[str, bytes]:
        """The clients whose uploads are in the sum, with their nonces; RemoteProtocolError if it is
        not the awaited sum.

        As far as can be told without opening it.
        """
        what = f"the broadcast of round {broadcast.round}"
        if broadcast.round != self.number or self._awaiting is not None:
            raise RemoteProtocolError(
                f"{what} is neither that of the open round, {self.number}, nor one that came before"
            )
        included = broadcast.included(self.roster.names)
        self.roster.check_members(what, list(included), self._caps, self._quorum.needed)
        if included.get(self.name, self._nonce) != self._nonce:
            raise RemoteProtocolError(
                f"{what} names an upload of client {self.name!r} that it did not make"
            )
        return included

    def open(self, broadcast: Broadcast) -> None:
        """Unmask the sum and go on, unless the next state travels. RemoteProtocolError if it is not
        the sum that is awaited.
        """
        included, index = self.included_in(broadcast), self.number - 1
        round = self._mechanism.all_rounds[index]
        total = self._masked.open(broadcast.payload, included, self.plan.n_words(round))
        answer = total.reshape(self._mechanism.shape(round))
        capped = sum(map(self._caps.__getitem__, included))
        n_records = min(capped, self._mechanism.n_records)  # less only in a simulation
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
        """Work out the parameters of the next query and seal them. Draws bytes: to be called once
        per round.
        """
        if self._awaiting is None:
            raise LocalProtocolError("no answer has come from which parameters could follow")
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
        """Go on from the parameters that the server stored, whoever worked them out; they are
        settled once and for all.
        """
        if parameters.round != self.number or self._awaiting is None:
            raise RemoteProtocolError(
                f"parameters for round {parameters.round} came when none were awaited for it; what"
                " was settled stays settled"
            )
        self.roster.check_members(
            "who worked out the parameters", [parameters.client], self._caps, 0
        )
        self._keys.key_set.check_parameters(parameters)
        client, salt, box = parameters.client, parameters.salt, parameters.box
        plain = open_parameters(self._keys.group_key, self._context(), client, salt, box)
        try:
            self._state = self._mechanism.read_state(
                self.number - 2, self._state, *self._awaiting, plain
            )
        except OverflowRisk as error:
            raise RemoteProtocolError(
                f"the parameters that client {parameters.client!r} worked out are refused: {error}"
            ) from None
        self._transcript_hash = extend_transcript(self._transcript_hash, parameters)
        self._proposed, self._awaiting = False, None
        self._enter_round()

    def confirm(self) -> Confirmation:
        """The client's word on the transcript and on what it ended with."""
        mac = self._ending(self._found()).confirmation(self.name)
        return Confirmation(
            mac, self._keys.own.sign(self._keys.key_set.confirmation(self.name, mac))
        )

    def conclude(self, confirmations: Confirmations) -> ClientResult:
        """The result, once enough of the last round's clients ended with the same and nobody with
        another.

        Two groups that a lying server leads to different results cannot both be that large; see
        `Masks.quorum` for when.
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
                f"client {others[0]!r} ended the run with other messages or other centroids; do not"
                " use them"
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
        """What the rounds so far have led to; None without centroids. A sum whose parameters never
        came does not count.
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
        """Turn to the next query, if there is one."""
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
