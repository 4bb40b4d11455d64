"""What must hold on a virtual network, whatever happened."""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.federation.plan.plan import Masks, TrustMode
from fastlloyd.federation.protocol.actions import SERVER
from fastlloyd.federation.protocol.messages import (
    Abort,
    AllReady,
    BadKeys,
    Broadcast,
    Confirmation,
    Confirmations,
    Deal,
    Hello,
    KeyBox,
    Parameters,
    Proposal,
    Ready,
    SealedKeys,
    Turn,
    Upload,
    encode,
    message_digest,
)
from fastlloyd.federation.secagg.masks import name_field
from fastlloyd.federation.secagg.pairs import CHECKED_BYTES, CIPHERTEXT_BYTES
from federation import parts_of, same_clustering
from network_parts import Parts

GROUP_LABEL, PAIR_LABEL = b"fastlloyd/v1/mask", b"fastlloyd/v1/pair-mask"


class Rules(Parts):
    """Each raises AssertionError if it is broken."""

    def check_one_plaintext_per_mask(self) -> None:
        """A keystream under the group key hides one plaintext, sent or not: a nonce is drawn for
        each.

        A keystream of a pair hides one plaintext that was sent of each of its two clients, one with
        each sign.
        """
        sent = {(sender, said.nonce) for sender, said in self.said if isinstance(said, Upload)}
        for (_, info), members in self.watch.hidden.items():
            if info.startswith(GROUP_LABEL):
                assert len(members) == 1
                continue
            assert info.startswith(PAIR_LABEL)
            left = [name for name, nonce in members if (name, nonce) in sent]
            assert len(left) == len(set(left))
            pairs = [
                (name_field(a) + name_field(b), {a, b})
                for a in self.names
                for b in self.names
                if a != b
            ]
            (pair,) = [both for fields, both in pairs if fields in info]
            assert {name for name, _ in members} <= pair

    def check_one_key_set_per_mask(self) -> None:
        """All uploads that a keystream ever helped to hide, sent or not, were made in one key set:
        it is bound to the Deal.
        """
        for members in self.watch.hidden.values():
            assert len({self.watch.deals[member] for member in members}) == 1

    def check_one_query_per_sum(self) -> None:
        """All uploads of a sum that anybody opened answer the same query; and it is the query of
        the client that opened it.
        """
        nonces = self._nonces()
        for rounds, number, broadcast, _ in self.watch.opened:
            names = {rounds.name, *broadcast.included(self.names)}
            assert len({self.watch.queries[name, nonces[name, number]] for name in names}) == 1

    def check_keys_are_their_makers(self) -> None:
        """A client takes keys that the clients before it in the Deal signed for it, and none that
        were changed; it goes on only from those that fit.
        """
        lies = {said.deal for _, said in self.lies if isinstance(said, SealedKeys)}
        for name in self.names:
            for keys in self._recorded(name, KeyBox):
                (deal,) = [
                    deal for deal in self._recorded(name, Deal) if message_digest(deal) == keys.deal
                ]
                names = [hello.name for hello in deal.hellos]
                at = names.index(name)
                made = {
                    other: said
                    for other in names[:at]
                    for said in self._recorded(other, SealedKeys)
                    if said.deal == keys.deal
                }
                if keys.deal in lies:
                    continue  # what fits of it, the words of all say
                makers = [other for other in names[:at] if other in self.plan.masks.speakers(names)]
                assert list(made) == makers
                assert keys.ciphertexts == tuple(
                    made[other].ciphertexts[at - names.index(other) - 1] for other in makers
                )
                assert keys.box == (made[names[0]].boxes[at - 1] if at else None)

    def check_words_are_their_speakers(self) -> None:
        """Parameters and confirmations that anybody goes on from were said by the client that they
        name.
        """
        words = {
            (name, said.round, said.salt, said.box)
            for name, said in (*self.said, *self.lies)
            if isinstance(said, Proposal)
        }
        macs = {
            (name, said.mac)
            for name, said in (*self.said, *self.lies)
            if isinstance(said, Confirmation)
        }
        for party in self.logs:
            assert {
                (p.client, p.round, p.salt, p.box) for p in self._recorded(party, Parameters)
            } <= words
            for relayed in self._recorded(party, Confirmations):
                assert {(name, mac) for name, mac, _ in relayed.confirmed} <= macs

    def check_one_key_set(self) -> None:
        """What each client's log says of keys: Deals that shrink in each beginning of the run, of
        which none comes back, an answer to each, then one key set, of the last of them, with which
        all were ready before anything was charged.
        """
        hello_of = {name: self._recorded(name, Hello)[:1] for name in self.names}
        for name in self.names:
            deals, boxes = self._recorded(name, Deal), self._recorded(name, KeyBox)
            for before, after in pairwise(deals):
                if after.beginning == before.beginning:
                    assert set(after.hellos) < set(before.hellos)
                    assert after.attempt > before.attempt
            changes = 1 + sum(a.beginning != b.beginning for a, b in pairwise(deals))
            assert changes == max(1, len({deal.beginning for deal in deals}))
            for deal in deals:
                assert all([hello] == hello_of[hello.name] for hello in deal.hellos)
                assert name in {hello.name for hello in deal.hellos}
                assert len(deal.hellos) >= self.plan.min_present
            of_deals = [message_digest(deal) for deal in deals]
            assert [box.deal for box in boxes] == [
                deal for deal in of_deals if deal in {box.deal for box in boxes}
            ]
            kinds = [type(record) for record in self.logs[name].records]
            for came, said in pairwise(self.logs[name].records):
                if isinstance(came, KeyBox):
                    assert isinstance(said, Ready | BadKeys)
                    assert said.deal == came.deal
            agreed = self._recorded(name, AllReady)
            assert len(agreed) <= 1
            if agreed:
                assert agreed[0].deal == boxes[-1].deal == of_deals[-1]
                at = kinds.index(AllReady)
                assert not {Deal, KeyBox, Ready, BadKeys} & set(kinds[at:])
                assert Upload not in kinds[:at]
                assert kinds[at + 1] is Upload
                self._check_ready(deals[-1])
            else:
                assert Upload not in kinds
            self._check_sealed(name, deals)

    def _check_ready(self, deal: Deal) -> None:
        """Every client of the Deal that does not lie had made durable that it is ready with it, and
        all with the same bytes as ever.
        """
        digest = message_digest(deal)
        for hello in deal.hellos:
            said = [r for r in self._recorded(hello.name, Ready) if r.deal == digest]
            assert len(said) == 1 or hello.name in self.liars

    def check_charged_or_finished(self) -> None:
        """Where only clients lie, and only about keys, every other client ends with the result or
        has spent nothing.
        """
        for name in self.names:
            if name not in self.liars:
                assert name in self.results or not self._recorded(name, Upload)

    def check_who_is_left_out(self) -> None:
        """Where only clients lie, and only about keys, the others accuse liars alone, and no more
        of them are left out by accusations than there are liars.
        """
        honest = [name for name in self.names if name not in self.liars]
        for name in honest:
            for said in self._recorded(name, BadKeys):
                assert set(said.makers) <= self.liars
        ended = {name: self._recorded(name, Abort) for name in honest}
        named = [
            name
            for name, aborts in ended.items()
            for abort in aborts
            if f"goes on without client {name}: the key of client" in abort.reason
        ]
        assert len(named) <= len(self.liars)

    def _check_sealed(self, name: str, deals: list[Deal]) -> None:
        """Who speaks answers every Deal: with the same ciphertexts as ever in this beginning of the
        run, a fresh group key, and none for itself.
        """
        names = [[hello.name for hello in deal.hellos] for deal in deals]
        speaks = [
            deal
            for deal, of in zip(deals, names, strict=True)
            if name in self.plan.masks.speakers(of)
        ]
        sealed = self._recorded(name, SealedKeys)
        assert [said.deal for said in sealed] == [message_digest(deal) for deal in speaks]
        ciphertexts: dict[tuple[bytes, str], set[bytes]] = {}
        n_dealt = 0
        for said, deal in zip(sealed, speaks, strict=True):
            of = [hello.name for hello in deal.hellos]
            later = of[of.index(name) + 1 :]
            for other, message in zip(later, said.ciphertexts, strict=True):
                ciphertexts.setdefault((deal.beginning, other), set()).add(message[:CHECKED_BYTES])
            assert len(said.boxes) == (len(later) if of[0] == name else 0)
            n_dealt += of[0] == name
        assert all(len(made) == 1 for made in ciphertexts.values())
        assert len({next(iter(made))[:CIPHERTEXT_BYTES] for made in ciphertexts.values()}) == len(
            ciphertexts
        )
        boxes = [box for said in sealed for box in said.boxes]
        assert len(boxes) == len(set(boxes))
        if not self._has_ended(name):
            dealt = [
                secret
                for what, secret in self.logs[name].secrets.items()
                if what.startswith("group-key")
            ]
            assert len(set(dealt)) == len(dealt) == n_dealt

    def check_enough_noise(self) -> None:
        """Without the shares of any t of its clients, every sum that was opened still has all the
        noise that is claimed.

        With pairwise masks it has the shares of the whole key set, and each was drawn for so many.
        """
        if self.plan.trust is TrustMode.SERVER_NOISE:
            return
        nonces = self._nonces()
        for rounds, number, broadcast, _ in self.watch.opened:
            included, present = tuple(broadcast.included(self.names)), rounds._keys.key_set.names
            assert self.plan.masks is Masks.GROUP or included == present
            shares = [self.watch.shares[name, nonces[name, number]] for name in included]
            scales = self.plan.mechanism.all_rounds[number - 1].scales
            for part, scale in enumerate(scales):
                of_part = sorted(share[part] ** 2 for share in shares)
                honest = of_part[: len(of_part) - self.plan.max_colluding]
                assert sum(honest, Fraction(0)) >= scale**2

    def _nonces(self) -> dict[tuple[str, int], bytes]:
        """By client and round."""
        return {
            (name, said.round): said.nonce
            for name in self.names
            for said in self._recorded(name, Upload)
        }

    def check_one_set_per_round(self) -> None:
        """Each session opens each round once, in order, and so does each log; the server fixes each
        round once.

        Of each round a client takes the masks off one broadcast, in all its lives together.
        """
        assert all(len(broadcasts) == 1 for broadcasts in self.watch.tried.values())
        sessions: dict[int, list[int]] = {}
        for rounds, number, _, _ in self.watch.opened:
            sessions.setdefault(id(rounds), []).append(number)
        for opened in (
            *sessions.values(),
            *([b.round for b in self._recorded(party, Broadcast)] for party in self.logs),
        ):
            assert opened == list(range(1, len(opened) + 1))
        assert {encode(broadcast) for broadcast in self._sent(Broadcast)} <= set(
            map(encode, self._recorded(SERVER, Broadcast))
        )

    def check_one_box_per_round(self) -> None:
        """Each session goes on from one box of each round, in order, and so does each log; only
        stored ones are relayed.
        """
        expected = list(self.limits.box_bytes)
        sessions: dict[int, list[int]] = {}
        for rounds, parameters in self.watch.settled:
            sessions.setdefault(id(rounds), []).append(parameters.round)
        for settled in (
            *sessions.values(),
            *([p.round for p in self._recorded(party, Parameters)] for party in self.logs),
        ):
            assert settled == expected[: len(settled)]
        assert {encode(parameters) for parameters in self._sent(Parameters)} <= set(
            map(encode, self._recorded(SERVER, Parameters))
        )
        for name in (
            self.names
        ):  # an upload is masked for the box that the record before it holds, and no other
            log = self.logs[name].records
            for before, record in pairwise(log):
                if isinstance(record, Upload) and record.round in self.limits.box_bytes:
                    assert isinstance(before, Parameters)
                    assert before.round == record.round
            proposed = [proposal.round for proposal in self._recorded(name, Proposal)]
            assert proposed == sorted(set(proposed))

    def check_one_noise_per_sum(self) -> None:
        """What a broadcast holds besides its uploads is noise that was drawn for it alone, and none
        where clients add it.
        """
        unused = [noise.tolist() for noise in self.noise[SERVER].drawn]
        for broadcast in self._recorded(SERVER, Broadcast):
            if any(
                (broadcast.round, name) in self.spoiled for name in broadcast.included(self.names)
            ):
                continue
            added = self._noise_of(broadcast)
            exchange = self.plan.mechanism.all_rounds[broadcast.round - 1]
            parts = [part.ravel() for part in parts_of(self.plan.mechanism, exchange, added)]
            assert added.shape == self.plan.mechanism.shape(exchange)
            if self.plan.trust is TrustMode.SERVER_NOISE:
                for part in parts:
                    unused.remove(part.tolist())
            else:
                assert not added.any()

    def _noise_of(self, broadcast: Broadcast) -> IntArray:
        exchange, ring = self.plan.mechanism.all_rounds[broadcast.round - 1], self.plan.ring
        n_words = self.plan.n_words(exchange)
        total = ring.from_bytes(broadcast.payload, n_words)
        for member in broadcast.included(self.names).items():
            total = ring.subtract(total, ring.from_bytes(self.watch.cipher[member], n_words))
        assert total[-1] == 0
        return ring.centre(total[:-1]).reshape(self.plan.mechanism.shape(exchange))

    def check_everybody_opens_the_same(self) -> None:
        """One opened set per round, whoever opens it."""
        opened = {number: broadcast for _, number, broadcast, _ in self.watch.opened}
        assert all(opened[number] == broadcast for _, number, broadcast, _ in self.watch.opened)
        settled = {parameters.round: parameters for _, parameters in self.watch.settled}
        assert all(settled[parameters.round] == parameters for _, parameters in self.watch.settled)

    def check_write_ahead(self) -> None:
        """A round's upload is recorded once, and nothing is sent that was not recorded or does not
        follow from it.
        """
        for party in self.logs:
            recorded = set(map(encode, self.logs[party].records))
            for message in {said for sender, said in self.said if sender == party}:
                match message:
                    case KeyBox():  # follows from the keys that are recorded
                        assert {sealed.deal for sealed in self._recorded(SERVER, SealedKeys)} >= {
                            message.deal
                        }
                    case Turn():  # follows from the sum that is recorded
                        assert message.round - 1 in {
                            broadcast.round for broadcast in self._recorded(SERVER, Broadcast)
                        }
                    case Abort() if party == SERVER and encode(message) not in recorded:
                        assert message.reason.startswith(
                            ("the run began without", "the run goes on without")
                        )
                    case _:
                        assert encode(message) in recorded
        for name in self.names:
            uploads = self._recorded(name, Upload)
            assert [upload.round for upload in uploads] == list(range(1, len(uploads) + 1))
            assert all(
                len(self._recorded(name, kind)) <= 1 for kind in (Hello, AllReady, Confirmation)
            )

    def check_exact(self, clients: Callable[[str], bool]) -> None:
        """What these clients opened is, to the bit, the sum of what the named clients hid, and the
        server's noise.
        """
        for rounds, number, broadcast, answer in self.watch.opened:
            members = list(broadcast.included(self.names).items())
            if clients(rounds.name) and not any(
                (number, member) in self.spoiled for member, _ in members
            ):
                values = [self.watch.plain[member] for member in members]
                assert np.array_equal(
                    answer, np.sum([*values, self._noise_of(broadcast)], axis=0).ravel()
                )

    def check_agreement(self) -> None:
        """All that finish have the same result, bit for bit."""
        for result in self.results.values():
            first = next(iter(self.results.values()))
            assert same_clustering(result.clustering, first.clustering)
            assert result.included == first.included
