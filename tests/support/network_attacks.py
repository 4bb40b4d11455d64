"""What an attacker in the place of the network, of the server or of a client can do to honest
sessions.

It knows the signing keys of nobody in the plan, but in `second_hello`, where a client signs two
Hellos.
"""

from dataclasses import replace
from functools import cache
from itertools import combinations

import msgspec
import numpy as np

from fastlloyd.federation.plan.plan import TrustMode
from fastlloyd.federation.protocol.actions import SERVER
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.joining import Joining
from fastlloyd.federation.protocol.messages import (
    BEGINNING_BYTES,
    Abort,
    AllReady,
    BadKeys,
    Broadcast,
    Confirmation,
    Confirmations,
    Deal,
    Hello,
    KeyBox,
    Message,
    Parameters,
    Proposal,
    Ready,
    SealedKeys,
    Turn,
    Upload,
    encode,
)
from fastlloyd.federation.protocol.roster import KeySet, Roster
from fastlloyd.federation.protocol.rounds import ClientRounds
from fastlloyd.federation.protocol.transitions import ClientState, ServerState
from fastlloyd.federation.secagg.masks import GroupKey
from fastlloyd.federation.secagg.pairs import CHECKED_BYTES, PairKey, RunKeys, encapsulate
from fastlloyd.federation.secagg.sealing import seal_parameters
from fastlloyd.mechanisms.mechanism import Mechanism
from federation import among, entropy, identity, make_plan
from network_parts import Crash, Letter, Parts, sends

OTHER_PLAN = make_plan(
    5, max_dropouts=1, n_clusters=1, n_features=1, n_iterations=2, run_id=b"another 16 bytes"
)


KEY_STEPS = ServerState.JOINING, ServerState.DEALING, ServerState.AGREEING


class Attacks(Parts):
    """Each is an operation of a schedule, a method of two small numbers."""

    # Letters that go astray

    def corrupt(self, a: int, b: int) -> None:
        if self.flight:
            letter = self.flight[a % len(self.flight)]
            data = bytearray(letter.data)
            data[b * 5 % len(data)] ^= 1 << (a % 8)
            self.flight[a % len(self.flight)] = replace(letter, data=bytes(data))

    def misdirect(self, a: int, b: int) -> None:
        letter = self.history[a % len(self.history)]
        if letter.recipient != SERVER:
            self.flight.insert(0, replace(letter, recipient=self._client(b).name))

    def impersonate(self, a: int, b: int) -> None:
        """What one client really said, in the name of another."""
        letter = self.history[a % len(self.history)]
        if letter.recipient == SERVER:
            self.flight.insert(0, replace(letter, sender=self._client(b).name))

    # Hellos and keys

    def wrong_plan(self, a: int, _b: int) -> None:
        other = replace(self.federation, plan=OTHER_PLAN)
        name = self._client(a).name
        self.flight.insert(0, Letter(name, SERVER, encode(_hello(other.client(name)))))

    def forge_hello(self, a: int, b: int) -> None:
        """Somebody speaks in another's name, to the server, or through it to the client that
        deals.
        """
        forger, victim = self.names[a % len(self.names)], self.names[b % len(self.names)]
        forged = Roster.of(self.plan).hello(
            victim, drawn_by("forger"), identity(forger if forger != victim else "mallory")
        )
        self.flight.insert(0, Letter(forger, SERVER, encode(forged)))
        if deals := self._sent(Deal):
            self._sneak(self.names.index(deals[-1].hellos[0].name), _in_place_of(deals[-1], forged))

    def second_hello(self, a: int, b: int) -> None:
        """A client that lies signs another Hello; it is shown to one that has accepted a Deal with
        its first.
        """
        liar, accepted = self._client(b).name, self._recorded(self._client(a).name, Deal)
        if accepted and liar in {hello.name for hello in accepted[-1].hellos}:
            another = Roster.of(self.plan).hello(liar, drawn_by("liar"), identity(liar))
            self._sneak(a, _in_place_of(accepted[-1], another))

    def other_deal(self, a: int, b: int) -> None:
        """A Deal of clients that really said Hello, to one of them, whatever the others are
        shown, of this beginning or another.
        """
        hellos = {hello.name: hello for hello in self._sent(Hello)}
        there = [name for name in self.names if name in hellos]
        sets = [chosen for n in range(1, len(there) + 1) for chosen in combinations(there, n)]
        if sets:
            chosen = tuple(hellos[name] for name in sets[b % len(sets)])
            beginning = (
                bytes([a % 3]) * BEGINNING_BYTES if b % 4 == 3 else self.server._joining.beginning
            )
            self._sneak(a, Deal(beginning, 1 + b % 3, chosen))

    def second_key_set(self, a: int, _b: int) -> None:
        """All that was really made for a client, for the Deal that it accepted last, whatever the
        server decided on.
        """
        recipient, accepted = self._client(a).name, self._recorded(self._client(a).name, Deal)
        if not accepted:
            return
        deal = KeySet(Roster.of(self.plan), accepted[-1])
        made = {
            sender: said
            for sender, said in self.said
            if isinstance(said, SealedKeys) and said.deal == deal.digest
        }
        at = deal.names.index(recipient)
        makers = [name for name in deal.names[:at] if name in self.plan.masks.speakers(deal.names)]
        if set(makers) <= set(made):
            ciphertexts = tuple(
                made[name].ciphertexts[at - deal.names.index(name) - 1] for name in makers
            )
            dealt = made.get(deal.names[0])
            if dealt is not None and dealt.commitment is not None:
                box = dealt.boxes[at - 1] if at else None
                self._sneak(a, KeyBox(deal.digest, dealt.commitment, ciphertexts, box))

    def false_keys(self, a: int, b: int) -> None:
        """The server makes the key of a pair, and seals a group key it knows, in the name of the
        dealer.
        """
        recipient, deals = self._client(a).name, self._sent(Deal)
        if not deals:
            return
        deal = KeySet(Roster.of(self.plan), deals[b // 2 % len(deals)])
        dealer = deal.names[0]
        if recipient not in deal.names[1:]:
            return
        secret, ciphertext = encapsulate(deal.hellos[recipient].encapsulation_key)
        exchanged = drawn_by("server").exchange(deal.hellos[recipient].exchange_key)
        pair = PairKey.agree(
            deal.pair(dealer, recipient),
            exchange_secret=exchanged,
            kem_secret=secret,
            ciphertext=ciphertext,
        )
        genuine = self._key_boxes.get(recipient)
        others = (
            genuine.ciphertexts[1:] if genuine is not None and genuine.deal == deal.digest else ()
        )
        known = GroupKey(bytes(32))
        commitment, box = known.commitment(deal.digest), pair.seal(known, deal.digest)
        checked = pair.message(ciphertext)
        statement = deal.made(dealer, recipient, checked, commitment, box)
        message = checked + drawn_by("server").sign(statement)
        self._sneak(a, KeyBox(deal.digest, commitment, (message, *others), box))

    def swap_keys(self, a: int, b: int) -> None:
        """A client is sent what was made for another, or its own in another order, or half of it
        made by somebody else.
        """
        boxes = self._key_boxes
        mine = boxes.get(self._client(a).name)
        if mine is None:
            return
        other = list(boxes.values())[b // 8 % len(boxes)]
        flipped = tuple(bytes([message[0] ^ 1]) + message[1:] for message in mine.ciphertexts)
        lies = [
            msgspec.structs.replace(mine, ciphertexts=mine.ciphertexts[::-1]),
            msgspec.structs.replace(mine, ciphertexts=other.ciphertexts),
            msgspec.structs.replace(mine, ciphertexts=(*flipped[:1], *mine.ciphertexts[1:])),
            msgspec.structs.replace(mine, ciphertexts=(*mine.ciphertexts[:-1], *flipped[-1:])),
            msgspec.structs.replace(mine, ciphertexts=mine.ciphertexts[1:]),
            msgspec.structs.replace(mine, box=other.box),
            msgspec.structs.replace(mine, commitment=bytes(32)),
            msgspec.structs.replace(mine, box=None if mine.box else bytes(60)),
            msgspec.structs.replace(other, deal=mine.deal),
        ]
        self._sneak(a, lies[b % len(lies)])

    def false_ready(self, a: int, b: int) -> None:
        """All are ready, says the server: of another Deal, with words of other Deals or of fewer
        clients, or with none.
        """
        recipient = self._client(a).name
        if not (accepted := self._recorded(recipient, Deal)):
            return
        deal, words = accepted[-1], dict[str, list[bytes]]()
        for sender, said in self.said:
            if isinstance(said, Ready):
                words.setdefault(sender, []).append(said.signature)
        names = [hello.name for hello in deal.hellos]
        some = [words.get(name, [bytes(64)]) for name in names]
        signatures = tuple(each[b // 8 % len(each)] for each in some)
        digest = KeySet(Roster.of(self.plan), deal).digest
        lies = [
            AllReady(digest, 1, (bytes(64), *signatures[1:])),
            AllReady(digest, 1, (*signatures[:-1], bytes(64))),
            AllReady(digest, 1, signatures[1:]),
            AllReady(digest, 2, signatures),
            AllReady(bytes(32), 1, signatures),
            AllReady(digest, 1, signatures[::-1]),
            AllReady(digest, 1, signatures),
        ]
        self._sneak(a, lies[b % len(lies)])

    # Clients that lie about keys

    def lying_keys(self, a: int, b: int) -> None:
        """A client answers its Deal with keys that do not fit, for one of the others or for all,
        and signs them.
        """
        liar = self._client(a)
        match liar._phase:
            case Joining(key_set=KeySet() as deal) as joining:
                pass
            case _:
                return
        answers = [s for s in self._recorded(liar.name, SealedKeys) if s.deal == deal.digest]
        if not answers or not answers[0].ciphertexts:
            return
        lie = _false_keys(liar.name, joining, deal, answers[0], b)
        self.flight = [
            letter
            for letter in self.flight
            if letter.sender != liar.name or letter.data != encode(answers[0])
        ]
        self.liars.add(liar.name)
        self._lie(liar.name, lie)

    def lying_ready(self, a: int, b: int) -> None:
        """A client signs that it is ready, before it is or with something else."""
        liar = self._client(a)
        match liar._phase:
            case Joining(key_set=KeySet() as deal) as joining:
                transcript = (bytes(32), deal.transcript(bytes(32)))[b % 2]
                signature = joining._own.run.sign(deal.ready(liar.name, 1, transcript))
                self.liars.add(liar.name)
                self._lie(liar.name, Ready(deal.digest, 1 + b // 2 % 2, signature))

    def accuse(self, a: int, b: int) -> None:
        """A client says that keys do not fit that do, or that nobody made for it."""
        liar = self._client(a)
        match liar._phase:
            case Joining(key_set=KeySet() as deal):
                earlier = deal.names[: deal.names.index(liar.name)]
                makers = list(self.plan.masks.speakers(deal.names))
                chosen = tuple(
                    name for i, name in enumerate(makers) if name in earlier and b >> i & 1
                )
                self.liars.add(liar.name)
                self._lie(liar.name, BadKeys(deal.digest, chosen or (deal.names[-1],)))

    def silence(self, a: int, _b: int) -> None:
        """A client says nothing until the step's time is over, while keys are shared."""
        name = self._client(a).name
        if self.server.state in KEY_STEPS:
            self.flight = [letter for letter in self.flight if letter.sender != name]
            self.deliver_all()
            if self.server.state in KEY_STEPS:
                self._act(SERVER, self.server.deadline())

    # Sums

    def second_set(self, a: int, b: int) -> None:
        """A proper sum of uploads that were really made, over another set than everybody else is
        shown.
        """
        uploads = self._uploads(1 + b % self.plan.mechanism.n_rounds)
        left_out = self.names[b % len(self.names)]
        self._broadcast(a, {name: upload for name, upload in uploads.items() if name != left_out})

    def two_sets(self, a: int, b: int) -> None:
        """One proper sum after the other, over two sets, for a client that dies when it takes the
        first.
        """
        client = self._client(a)
        uploads = self._uploads(client.round)
        left_out = self.names[b // len(Crash) % len(self.names)]
        self._broadcast(a, {name: upload for name, upload in uploads.items() if name != left_out})
        self._broadcast(a, uploads)
        self.armed[client.name] = Crash(b % len(Crash)), 0

    def equivocate(self, a: int, b: int) -> None:
        """A broadcast that really was made, changed in one place for one client."""
        broadcasts = self._sent(Broadcast)
        if not broadcasts:
            return
        shown = broadcasts[a // 8 % len(broadcasts)]
        first, *_, last = shown.included(self.names)
        words = np.frombuffer(shown.payload, self.plan.ring.dtype).copy()
        words[b % len(words)] += 1
        lies = [
            msgspec.structs.replace(shown, payload=words.tobytes()),
            among(self.names, shown, {first: None}),
            msgspec.structs.replace(shown, members=bytes(len(shown.members))),
            msgspec.structs.replace(shown, nonces=shown.nonces[8:]),
            among(self.names, shown, {first: bytes(8)}),
            among(
                self.names, shown, {last: bytes(8)}
            ),  # opens with pairwise masks: the first client's alone is used
            msgspec.structs.replace(shown, round=1 + shown.round % self.plan.mechanism.n_rounds),
        ]
        self._sneak(a, lies[b % len(lies)])

    # Parameters

    def second_box(self, a: int, b: int) -> None:
        """Parameters that a client really worked out, and that were not stored: the server stores
        none but the first.
        """
        stored = {
            (parameters.client, parameters.salt)
            for parameters in self._recorded(SERVER, Parameters)
        }
        made = [(sender, said) for sender, said in self.said if isinstance(said, Proposal)]
        others = [(sender, said) for sender, said in made if (sender, said.salt) not in stored]
        if others:
            sender, proposal = others[b % len(others)]
            self._sneak(
                a,
                Parameters(proposal.round, sender, proposal.salt, proposal.box, proposal.signature),
            )

    def false_box(self, a: int, b: int) -> None:
        """Parameters that were stored, changed in one place for one client."""
        relayed = self._sent(Parameters)
        if not relayed:
            return
        shown = relayed[a // 8 % len(relayed)]
        other = next(name for name in self.names if name != shown.client)
        lies = [
            msgspec.structs.replace(shown, box=bytes([shown.box[0] ^ 1]) + shown.box[1:]),
            msgspec.structs.replace(shown, salt=shown.salt[::-1]),
            msgspec.structs.replace(shown, client=other),
            msgspec.structs.replace(shown, signature=shown.signature[::-1]),
            msgspec.structs.replace(
                shown, round=2 + (shown.round - 1) % len(self.limits.box_bytes)
            ),
        ]
        self._sneak(a, lies[b % len(lies)])

    def false_turn(self, a: int, b: int) -> None:
        self._sneak(a, Turn(2 + b % self.plan.mechanism.n_rounds))

    def false_proposal(self, a: int, b: int) -> None:
        """A client makes parameters up that nobody can open, and signs them, if it has a key to
        sign with by now.
        """
        if not self.limits.box_bytes:
            return
        number, liar = [*self.limits.box_bytes][b % len(self.limits.box_bytes)], self._client(a)
        salt, box = bytes(16), bytes(self.limits.box_bytes[number])
        match liar._phase:
            case ClientRounds() as rounds:
                signature = rounds._keys.own.sign(
                    rounds._keys.key_set.proposal(liar.name, number, salt, box)
                )
            case _:
                signature = bytes(64)
        self._lie(liar.name, Proposal(number, salt, box, signature))

    def forged_parameters(self, a: int, b: int) -> None:
        """A client that waits for parameters works some out, and they are relayed to another in the
        name of a third.
        """
        liar, victim = self._client(b), self._client(b + 1).name
        match liar._phase:
            case ClientRounds(_awaiting=(answer, noise)) as rounds:
                m: Mechanism = self.plan.clustering
                data = m.write_state(
                    rounds.number - 2, m.advance(rounds.number - 2, rounds._state, answer, noise)
                )
                box = seal_parameters(
                    rounds._keys.group_key, rounds._context(), victim, bytes(16), data
                )
                signature = rounds._keys.own.sign(
                    rounds._keys.key_set.proposal(victim, rounds.number, bytes(16), box)
                )
                self._sneak(a, Parameters(rounds.number, victim, bytes(16), box, signature))

    # The end

    def false_confirmations(self, a: int, b: int) -> None:
        """Too few, or one client's word in the name of another, or words that nobody said."""
        relayed = self._sent(Confirmations)
        confirmed = (
            relayed[0].confirmed
            if relayed
            else tuple((name, bytes(32), bytes(64)) for name in self.names)
        )
        first = confirmed[0]
        lies = [
            confirmed[: b // 4 % (len(confirmed) + 1)],
            tuple((name, *first[1:]) for name, _, _ in confirmed),
            tuple((name, mac, first[2]) for name, mac, _ in confirmed),
            tuple((name, bytes(32), signature) for name, _, signature in confirmed),
        ]
        self._sneak(a, Confirmations(lies[b % len(lies)]))

    def lying_confirmation(self, a: int, _b: int) -> None:
        """A client says that it ended otherwise, and signs it."""
        liar = self._client(a)
        match liar._phase:
            case ClientRounds() as rounds:
                signature = rounds._keys.own.sign(
                    rounds._keys.key_set.confirmation(liar.name, bytes(32))
                )
                self._lie(liar.name, Confirmation(bytes(32), signature))

    def forged_confirmations(self, a: int, b: int) -> None:
        """A client that has ended confirms for all: it has the group key, and so the HMAC of
        everybody, but not their keys.
        """
        match self._client(b)._phase:
            case ClientRounds(state=ClientState.CONFIRMING) as rounds:
                agreed, ending = rounds._keys.key_set, rounds._ending(rounds._found())
                macs = [(name, ending.confirmation(name)) for name in agreed.names]
                forged = [
                    (name, mac, rounds._keys.own.sign(agreed.confirmation(name, mac)))
                    for name, mac in macs
                ]
                self._sneak(a, Confirmations(tuple(forged)))

    def false_abort(self, a: int, _b: int) -> None:
        self._sneak(a, Abort("no reason at all"))

    def give_up(self, a: int, b: int) -> None:
        """A client ends its run, and says so or not; or it says so and goes on."""
        client = self._client(a)
        if b % 3 < 2:
            self._act(client.name, client.deadline())
        if b % 3 > 0:
            self._act(SERVER, self.server.left(client.name))

    # Odds and ends

    @property
    def _key_boxes(self) -> dict[str, KeyBox]:
        """What the server sends each client of its last Deal; nothing before all have answered."""
        sharing = self.server._sharing
        if sharing is None or not sharing.is_dealt:
            return {}
        return {name: sharing.key_set.key_box(name, sharing.sealed) for name in sharing.present}

    def _broadcast(self, a: int, uploads: dict[str, Upload]) -> None:
        if not uploads:
            return
        ring, number = self.plan.ring, next(iter(uploads.values())).round
        n_words = self.plan.n_words(self.plan.mechanism.all_rounds[number - 1])
        noise = np.append(self.federation.server_noise[number - 1].ravel(), 0)
        total = ring.wrap(
            noise if self.plan.trust is TrustMode.SERVER_NOISE else np.zeros_like(noise)
        )
        for upload in uploads.values():
            total = ring.add(total, ring.from_bytes(upload.payload, n_words))
        included = {name: upload.nonce for name, upload in uploads.items()}
        self._sneak(a, Broadcast.of(self.names, number, included, ring.to_bytes(total)))


@cache
def drawn_by(who: str) -> RunKeys:
    """Fixed keys of an attacker."""
    return RunKeys.draw(entropy(who))


def _in_place_of(deal: Deal, hello: Hello) -> Deal:
    hellos = tuple(hello if hello.name == other.name else other for other in deal.hellos)
    return Deal(deal.beginning, deal.attempt, hellos)


def _false_keys(
    liar: str, joining: Joining, deal: KeySet, honest: SealedKeys, b: int
) -> SealedKeys:
    """Keys of which those for one client, or all, do not fit, though their maker signed them."""
    later = deal.names[deal.names.index(liar) + 1 :]
    victims = set(later if b % 2 else later[b // 2 % len(later) :][:1])
    keys, kind, commitment = joining._own.run, b // 2 % 6, honest.commitment
    boxes, messages = list(honest.boxes), list[bytes]()
    if kind == 4 and commitment is not None:
        commitment = bytes(32)
    for i, name in enumerate(later):
        checked = honest.ciphertexts[i][:CHECKED_BYTES]
        if name in victims:
            if kind == 0 or (kind > 1 and not boxes):
                checked = bytes([checked[0] ^ 1]) + checked[1:]
            elif kind == 1:
                checked = checked[:-1] + bytes([checked[-1] ^ 1])
            elif kind == 2:
                boxes[i] = bytes(len(boxes[i]))
            elif kind == 3:
                boxes[i] = boxes[i - 1] if len(boxes) > 1 else bytes(60)
            elif kind == 5:
                boxes[i] = joining._own.with_later(deal, name, joining._pair_secret(name)).seal(
                    GroupKey(bytes(32)), deal.digest
                )
        box = boxes[i] if boxes else None
        messages.append(checked + keys.sign(deal.made(liar, name, checked, commitment, box)))
    if b % 13 == 0:
        messages[-1] = messages[-1][:-1] + bytes([messages[-1][-1] ^ 1])
    return SealedKeys(honest.deal, commitment, tuple(messages), tuple(boxes))


def _hello(client: ClientSession) -> Message:
    (send,) = sends(client.start())
    return send.message
