"""What is wrong with the keys of a run or its masks is found: the rule that the genuine code keeps
is broken by the mutant.

Each mutant leaves out one thing on which secrecy or agreement rests. A schedule of the virtual
network leads to the step where it matters; what the genuine code does there breaks no rule at all,
and what the mutant does breaks the one that is named.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from fastlloyd.errors import LocalProtocolError
from fastlloyd.federation.plan.plan import Masks, TrustMode
from fastlloyd.federation.plan.quorum import Quorum
from fastlloyd.federation.protocol import roster
from fastlloyd.federation.protocol.joining import Joining
from fastlloyd.federation.protocol.messages import SealedKeys
from fastlloyd.federation.protocol.roster import KeySet
from fastlloyd.federation.protocol.rounds import ClientRounds
from fastlloyd.federation.secagg import masks as secagg
from fastlloyd.federation.secagg.masks import GroupKey, MaskContext, PairwiseMasks
from fastlloyd.federation.secagg.pairs import PairKey
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.settings import AnyAlgorithm
from schedules import (
    BEGINNINGS,
    FEDERATIONS,
    Schedule,
    check_after_attacks,
    check_after_bad_luck,
    subject,
)
from virtual_network import Network
from watch import Watch

Patch = pytest.MonkeyPatch


def delivered(n: int) -> Schedule:
    """So many messages arrive in order: with three clients, three each of Hello, Deal, SealedKeys,
    KeyBox, Ready, AllReady, Upload, ...
    """
    return [("deliver", 0, 0)] * n


NAMED = delivered(3)  # all Hellos came, the Deals are on their way
SEALED = delivered(6)  # pairwise: all have answered the Deal
DEALT = delivered(9)  # pairwise: the KeyBoxes are on their way
AGREED = delivered(15)  # pairwise: all are ready, and AllReady is on its way


def keep_nothing(patch: Patch) -> None:
    patch.setattr(Joining, "keep", lambda _: [])


def add_every_pair_mask(patch: Patch) -> None:
    genuine = PairwiseMasks.__init__

    def init(self: PairwiseMasks, *given: Any) -> None:
        genuine(self, *given)
        # as many
        self._pairs = tuple((self._ring.add, pairs) for _, pairs in self._pairs)  # type: ignore[assignment]

    patch.setattr(PairwiseMasks, "__init__", init)


def check_no_signature_of_keys(patch: Patch) -> None:
    patch.setattr(KeySet, "check_made", lambda *_: None)


def ask_nobody_whether_all_are_ready(patch: Patch) -> None:
    patch.setattr(KeySet, "check_all_ready", lambda *_: None)


def commit_to_any_group_key(patch: Patch) -> None:
    patch.setattr(GroupKey, "commitment", lambda _, deal: sha256(deal).digest())


def check_no_hmac(patch: Patch) -> None:
    patch.setattr(PairKey, "check", lambda *_: None)


def leave_the_deal_out_of_the_transcript(patch: Patch) -> None:
    patch.setattr(
        roster,
        "start_transcript",
        lambda plan_digest, run_id, *_: sha256(plan_digest + run_id).digest(),
    )


def seal_a_box_to_oneself(patch: Patch) -> None:
    genuine = Joining.seal

    def seal(self: Joining, random_bytes: Callable[[int], bytes]) -> SealedKeys:
        sealed = genuine(self, random_bytes)
        return msgspec.structs.replace(sealed, boxes=(*sealed.boxes[:1], *sealed.boxes))

    patch.setattr(Joining, "seal", seal)


def leave_the_digest_out_of_pair_masks(patch: Patch) -> None:
    def keystream(self: Any, context: MaskContext, n_bytes: int) -> bytes:
        found: bytes = self._streams.of(
            context.before + self._names + context.transcript_hash, n_bytes
        )
        return found

    patch.setattr(secagg._Pair, "keystream", keystream)


def deal_the_same_group_key_again(patch: Patch) -> None:
    genuine, drawn = GroupKey.draw, dict[Callable[[int], bytes], GroupKey]()

    def draw(random_bytes: Callable[[int], bytes]) -> GroupKey:
        if random_bytes not in drawn:
            drawn[random_bytes] = genuine(random_bytes)
        return drawn[random_bytes]

    patch.setattr(GroupKey, "draw", draw)


def take_another_hello(patch: Patch) -> None:
    patch.setattr(KeySet, "follows", lambda self, other: set(self.names) <= set(other.names))


def check_no_signature_of_parameters(patch: Patch) -> None:
    patch.setattr(KeySet, "check_parameters", lambda *_: None)


def check_no_signature_of_confirmations(patch: Patch) -> None:
    patch.setattr(KeySet, "check_confirmation", lambda *_: None)


def add_shares_for_all_of_the_plan(patch: Patch) -> None:
    genuine = Masks.quorum

    def quorum(
        self: Masks, n_present: int, n_clients: int, max_dropouts: int, max_colluding: int
    ) -> Quorum:
        found = genuine(self, n_present, n_clients, max_dropouts, max_colluding)
        return msgspec.structs.replace(found, shares=n_clients - max_colluding)

    patch.setattr(Masks, "quorum", quorum)


def nothing(patch: Patch) -> None:
    """The genuine code."""


def a_client_goes_astray(patch: Patch) -> None:
    """The last client asks another query from the second round on, for whatever reason; no mutant,
    but what happens.
    """
    genuine = ClientRounds._enter_round

    def enter_round(self: ClientRounds) -> None:
        genuine(self)
        if self.name == "c2" and self.number == 2:
            self._masked = replace(
                self._masked, context=replace(self._masked.context, centroids_digest=bytes(32))
            )

    patch.setattr(ClientRounds, "_enter_round", enter_round)


@dataclass(frozen=True)
class Mutant:
    """apply : makes it; schedule : leads to where it matters; rule : of `Network`, that it breaks;
    meanwhile : what happens.
    """

    apply: Callable[[Patch], None]
    schedule: Schedule
    rule: str
    masks: Masks = Masks.PAIRWISE
    algorithm: AnyAlgorithm = FASTLLOYD
    meanwhile: Callable[[Patch], None] = nothing
    is_attacked: bool = True

    def __str__(self) -> str:
        return f"{self.apply.__name__}, {self.masks.value}"

    def played(self, watch: Watch) -> Network:
        network = Network(
            FEDERATIONS[subject(self.algorithm, TrustMode.CLIENT_NOISE, self.masks)], watch
        )
        for operation, a, b in self.schedule:
            getattr(network, operation)(a, b)
        network.settle()
        return network


TO_C1_AND_C2 = 5  # which Deal `other_deal` shows
WORDS_OF_ANOTHER_DEAL = 6  # which lie `false_ready` tells
FOR_ALL, ANOTHER_GROUP_KEY = 1, 2 * 5 + 0  # which lies `lying_keys` tells
NOBODY_IS_READY: Schedule = [
    *(*DEALT, ("deliver", 0, 0)),
    *(("give_up", 2, 0), ("false_ready", 0, 0), ("deliver", 0, 0)),
]
LAST_CHANGED = 3  # which lie `swap_keys` tells
UNDER_TWO_DEALS: Schedule = [
    *AGREED,
    ("crash_client", 1, 0),  # c1 dies with its first upload, before that is durable
    ("deliver", 1, 0),
    *(("other_deal", 1, TO_C1_AND_C2), ("deliver", 0, 0)),
    *(("second_key_set", 1, 0), ("deliver", 0, 0)),
    *(("false_ready", 1, WORDS_OF_ANOTHER_DEAL), ("deliver", 0, 0)),
]
DEALT_TWICE: Schedule = [*SEALED, ("drop", 2, 0), *delivered(2), ("deadline", 0, 0)]
MUTANTS = [
    Mutant(add_every_pair_mask, [], "accusations", is_attacked=False),
    Mutant(
        check_no_signature_of_keys,
        [*DEALT, ("swap_keys", 2, LAST_CHANGED)],
        "check_keys_are_their_makers",
    ),
    Mutant(check_no_hmac, [*SEALED, ("lying_keys", 1, FOR_ALL)], "check_charged_or_finished"),
    *(
        Mutant(
            commit_to_any_group_key,
            [*delivered(n), ("lying_keys", 0, ANOTHER_GROUP_KEY)],
            "check_charged_or_finished",
            masks,
        )
        for masks, n in ((Masks.GROUP, 4), (Masks.PAIRWISE, 6))
    ),
    *(
        Mutant(ask_nobody_whether_all_are_ready, schedule, "check_one_key_set", masks)
        for masks, schedule in (
            (Masks.PAIRWISE, NOBODY_IS_READY),
            (Masks.GROUP, [*delivered(8), *NOBODY_IS_READY[len(DEALT) + 1 :]]),
        )
    ),
    Mutant(leave_the_deal_out_of_the_transcript, UNDER_TWO_DEALS, "check_one_key_set_per_mask"),
    *(
        Mutant(seal_a_box_to_oneself, [], "check_one_key_set", masks, is_attacked=False)
        for masks in Masks
    ),
    Mutant(
        leave_the_digest_out_of_pair_masks,
        [],
        "check_one_query_per_sum",
        meanwhile=a_client_goes_astray,
    ),
    Mutant(deal_the_same_group_key_again, DEALT_TWICE, "check_one_key_set", is_attacked=False),
    Mutant(
        deal_the_same_group_key_again,
        [*delivered(10), ("drop", 2, 0), *delivered(2), ("deadline", 0, 0)],
        "check_one_key_set",
        Masks.GROUP,
        is_attacked=False,
    ),
    *(
        Mutant(
            take_another_hello, [*delivered(5), ("second_hello", 1, 2)], "check_one_key_set", masks
        )
        for masks in Masks
    ),
    Mutant(
        check_no_signature_of_parameters,
        [*delivered(24), ("forged_parameters", 1, 2)],
        "check_words_are_their_speakers",
        algorithm=MOMENTLLOYD,
    ),
    Mutant(
        check_no_signature_of_confirmations,
        [*delivered(35), ("give_up", 2, 0), ("forged_confirmations", 1, 0)],
        "check_words_are_their_speakers",
    ),
    Mutant(add_shares_for_all_of_the_plan, BEGINNINGS[-1], "check_enough_noise", is_attacked=False),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_rule_that_the_genuine_code_keeps_is_broken_by_the_mutant(
    mutant: Mutant, monkeypatch: Patch
) -> None:
    watch = Watch.install(monkeypatch)
    mutant.meanwhile(monkeypatch)
    (check_after_attacks if mutant.is_attacked else check_after_bad_luck)(mutant.played(watch))
    mutant.apply(monkeypatch)
    network = mutant.played(watch)
    if mutant.rule == "accusations":
        assert network.accusations != []
    else:
        with pytest.raises(AssertionError):
            getattr(network, mutant.rule)()


@pytest.mark.parametrize(
    ("name", "masks"), [(0, Masks.GROUP), (0, Masks.PAIRWISE), (1, Masks.PAIRWISE)]
)
def test_a_client_that_did_not_keep_its_secrets_cannot_take_the_run_up(
    name: int, masks: Masks, monkeypatch: Patch
) -> None:
    """The one that dealt, or, with pairwise masks, any that made the key of a pair."""
    watch, comes_back = Watch.install(monkeypatch), ("crash_client", name, 3)
    crashed = Mutant(keep_nothing, [*delivered(18), comes_back], "", masks)
    check_after_bad_luck(crashed.played(watch))
    crashed.apply(monkeypatch)
    with pytest.raises(LocalProtocolError, match="is gone"):
        crashed.played(watch)
