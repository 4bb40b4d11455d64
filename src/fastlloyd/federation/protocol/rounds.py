"""The rounds of one client, from the first query to the confirmed result: noised, masked and unmasked.

The calls are those of `mechanisms/central.run`, one per message.
"""

from collections.abc import Callable
from typing import TypedDict

from fastlloyd.clustering.domain import GridArray
from fastlloyd.dp.noise import NoiseSource
from fastlloyd.errors import LocalProtocolError, OverflowRisk, RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.actions import ClientResult
from fastlloyd.federation.protocol.masked_round import MaskedRound, Plausible
from fastlloyd.federation.protocol.messages import Broadcast, Confirmation, Confirmations, KeyBox, Parameters, Proposal, Upload
from fastlloyd.federation.protocol.roster import Roster
from fastlloyd.federation.protocol.transcript import extend_transcript, start_transcript
from fastlloyd.federation.secagg.keys import confirmation, differing
from fastlloyd.federation.secagg.masks import UPLOAD_NONCE_BYTES, GroupKey
from fastlloyd.federation.secagg.sealing import SALT_BYTES, ParametersContext, open_parameters, seal_parameters
from fastlloyd.mechanisms.mechanism import Answer, Clustering, Mechanism
from fastlloyd.mechanisms.queries.relative import centroids_digest
from fastlloyd.mechanisms.rounds import AnswerNoise, Exchange


class _Ending(TypedDict):
    transcript_hash: bytes
    centroids_digest: bytes
    plan_digest: bytes
    run_id: bytes


class ClientRounds:
    """One client once it holds the group key. In each round `upload` (or `recall`) is called once, then `open`."""

    __slots__ = (
        "_X",
        "_awaiting",
        "_caps",
        "_group_key",
        "_included",
        "_masked",
        "_mechanism",
        "_n_records",
        "_name",
        "_noise",
        "_nonce",
        "_plan",
        "_plausible",
        "_proposed",
        "_query",
        "_random_bytes",
        "_roster",
        "_state",
        "_transcript_hash",
    )

    def __init__(
        self,
        plan: Plan,
        roster: Roster,
        name: str,
        X: GridArray,
        *,
        keys: KeyBox,
        group_key: GroupKey,
        noise: NoiseSource,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._plan, self._roster, self._name, self._X = plan, roster, name, X
        self._group_key, self._noise, self._random_bytes = group_key, noise, random_bytes
        caps = {client.name: client.max_records for client in plan.clients}
        self._caps = {name: caps[name] for name in keys.present}
        self._plausible = Plausible.of(plan)
        self._transcript_hash = start_transcript(roster.plan_digest, roster.run_id, keys)
        self._included: list[tuple[str, ...]] = []
        self._n_records: list[int] = []  # of each of these sums, at most
        self._nonce = b""
        self._proposed = False
        self._mechanism: Mechanism = plan.mechanism
        self._state = self._mechanism.start()
        self._awaiting: tuple[Answer, AnswerNoise] | None = None  # opened, and the state after it has not come yet
        self._enter_round()

    @property
    def number(self) -> int:
        """The round that is open, from 1, that of the loss being the last; one more than there are when all are done."""
        return len(self._included) + 1

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to be asked or settled."""
        return len(self._included) == self._mechanism.n_rounds and not self.is_settling

    @property
    def is_settling(self) -> bool:
        """Whether parameters must come before this client can go on."""
        return self._awaiting is not None

    def is_to_propose(self, round: int) -> bool:
        """Whether parameters of that round are awaited that this client has not worked out yet."""
        return self.is_settling and round == self.number and not self._proposed

    @property
    def leads(self) -> bool:
        """Whether this client is the one that works out parameters without being asked: the first in the last sum."""
        return self._included[-1][0] == self._name

    @property
    def last_included(self) -> int:
        """The last round that was opened whose sum holds this client's answer; 0 if there is none."""
        return max((number for number, names in enumerate(self._included, 1) if self._name in names), default=0)

    def upload(self) -> Upload:
        """The client's exact answer plus its share of the noise, masked. Draws noise: to be called once per round."""
        exchange = self._mechanism.exchanges[self.number - 1]
        values = self._query.evaluate(self._X) + self._plan.draw_client_noise(exchange, self._noise)
        self._nonce = self._random_bytes(UPLOAD_NONCE_BYTES)
        return Upload(self.number, self._nonce, self._masked.hide(values, self._name, self._nonce))

    def recall(self, upload: Upload) -> None:
        """Take what was uploaded in this round before a restart: nothing is drawn, no record is read."""
        if upload.round != self.number:
            raise LocalProtocolError(f"an upload for round {upload.round} stands where that for round {self.number} belongs")
        self._nonce = upload.nonce

    def check(self, broadcast: Broadcast) -> None:
        """RemoteProtocolError if this cannot be the sum this client waits for, as far as can be told without opening it."""
        self._included_in(broadcast)

    def open(self, broadcast: Broadcast) -> None:
        """Unmask the sum and go on, unless the next state travels. RemoteProtocolError if it is not the sum that is awaited."""
        included = self._included_in(broadcast)
        exchange = self._mechanism.exchanges[self.number - 1]
        total = self._masked.open(broadcast.payload, included, self._plan.n_words_of(exchange))
        answer = total.reshape(self._mechanism.shape(exchange))
        n_records = sum(map(self._caps.__getitem__, included))
        self._plausible.check(answer, n_records, self.number)
        self._included.append(tuple(included))
        self._n_records.append(n_records)
        self._transcript_hash = extend_transcript(self._transcript_hash, broadcast)
        noise, last = self._answer_noise(exchange), len(self._included) - 1
        if self._mechanism.travelling_bytes(last):
            self._awaiting = answer, noise
        else:
            self._state = self._mechanism.advance(last, self._state, answer, noise)
            self._go_on()

    def propose(self) -> Proposal:
        """Work out the parameters of the next query and seal them. Draws bytes: to be called once per round."""
        answer, noise = self._awaited()
        m, last = self._mechanism, len(self._included) - 1
        data = m.write_state(last, m.advance(last, self._state, answer, noise))
        salt = self._random_bytes(SALT_BYTES)
        box = seal_parameters(self._group_key, self._context(self._name, salt), data)
        self._proposed = True
        return Proposal(self.number, salt, box)

    def recall_proposal(self, proposal: Proposal) -> None:
        """Take what was proposed before a restart: nothing is worked out or sealed anew."""
        if proposal.round != self.number:
            raise LocalProtocolError(f"parameters for round {proposal.round} stand where those for {self.number} belong")
        self._proposed = True

    def settle(self, parameters: Parameters) -> None:
        """Go on from the parameters that the server stored, whoever worked them out; they are settled once and for all."""
        if parameters.round != self.number or not self.is_settling:
            raise RemoteProtocolError(
                f"parameters for round {parameters.round} came when none were awaited for it; what was settled stays settled"
            )
        self._roster.check_members("who worked out the parameters", [parameters.client], self._caps, 0)
        plain = open_parameters(self._group_key, self._context(parameters.client, parameters.salt), parameters.box)
        try:
            self._state = self._mechanism.read_state(len(self._included) - 1, self._state, *self._awaited(), plain)
        except OverflowRisk as error:
            raise RemoteProtocolError(
                f"the parameters that client {parameters.client!r} worked out are refused: {error}"
            ) from None
        self._transcript_hash = extend_transcript(self._transcript_hash, parameters)
        self._proposed, self._awaiting = False, None
        self._go_on()

    def confirm(self) -> Confirmation:
        """The client's word on the transcript and the centroids it ended with."""
        return Confirmation(confirmation(self._group_key, name=self._name, **self._ending(self._finished())))

    def conclude(self, confirmations: Confirmations) -> ClientResult:
        """The result, once enough of the last round's clients ended with the same and nobody with another.

        Two groups that a lying server leads to different results cannot both be that large if a round needs more than half
        of the plan's clients.
        """
        clustering, last = self._finished(), self._included[-1]
        self._roster.check_members("the list of confirmations", [name for name, _ in confirmations.macs], self._caps, 0)
        others = differing(dict(confirmations.macs), self._group_key, **self._ending(clustering))
        if others:
            raise RemoteProtocolError(
                f"client {others[0]!r} ended the run with other messages or other centroids; do not use them"
            )
        confirmed = {self._name, *(name for name, _ in confirmations.macs)}
        unconfirmed = tuple(name for name in last if name not in confirmed)
        if len(last) - len(unconfirmed) < self._plan.min_included:
            raise RemoteProtocolError(
                f"{len(last) - len(unconfirmed)} clients of the last round confirmed the result; "
                f"at least {self._plan.min_included} are needed"
            )
        return ClientResult(clustering=clustering, included=tuple(self._included), unconfirmed=unconfirmed)

    def _included_in(self, broadcast: Broadcast) -> dict[str, bytes]:
        what = f"the broadcast of round {broadcast.round}"
        if broadcast.round != self.number or self.is_settling:
            raise RemoteProtocolError(f"{what} is neither that of the open round, {self.number}, nor one that came before")
        included = broadcast.included(self._roster.names)
        self._roster.check_members(what, list(included), self._caps, self._plan.min_included)
        if included.get(self._name, self._nonce) != self._nonce:
            raise RemoteProtocolError(f"{what} names an upload of client {self._name!r} that it did not make")
        return included

    def _finished(self) -> Clustering:
        if not self.is_done:
            raise LocalProtocolError("a client confirms its result after the last round, not before")
        return self._mechanism.clustering(self._state)

    def _awaited(self) -> tuple[Answer, AnswerNoise]:
        if self._awaiting is None:
            raise LocalProtocolError("no answer has come from which parameters could follow")
        return self._awaiting

    def _ending(self, clustering: Clustering) -> _Ending:
        return {
            "transcript_hash": self._transcript_hash,
            "centroids_digest": centroids_digest(clustering.centroids),
            "plan_digest": self._roster.plan_digest,
            "run_id": self._roster.run_id,
        }

    def _answer_noise(self, exchange: Exchange) -> AnswerNoise:
        """Of the sum that was opened last."""
        first, last = self._n_records[0], self._n_records[-1]
        deviations = self._plan.deviations(exchange, len(self._included[-1]))
        return AnswerNoise(deviations=deviations, share=last / first if first else 1.0)  # caps may be 0

    def _context(self, client: str, salt: bytes) -> ParametersContext:
        return ParametersContext(
            plan_digest=self._roster.plan_digest,
            run_id=self._roster.run_id,
            round=self.number,
            client=client,
            salt=salt,
            transcript_hash=self._transcript_hash,
        )

    def _go_on(self) -> None:
        if not self.is_done:
            self._enter_round()

    def _enter_round(self) -> None:
        self._query = query = self._mechanism.query(self.number - 1, self._state)
        self._masked = MaskedRound(
            group_key=self._group_key,
            plan_digest=self._roster.plan_digest,
            run_id=self._roster.run_id,
            round=self.number,
            transcript_hash=self._transcript_hash,
            centroids_digest=query.digest,
            ring=self._plan.ring,
        )
