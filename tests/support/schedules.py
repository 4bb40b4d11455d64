"""Schedules for the virtual network: what can happen in one, and what must hold after it, whatever
happened.
"""

from itertools import product
from typing import Any

from fastlloyd.federation.plan.plan import Masks, Plan, TrustMode
from fastlloyd.federation.protocol.transitions import ServerState
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.settings import AnyAlgorithm
from federation import make_federation, make_plan
from virtual_network import Network, Watch


# One cluster of one feature: messages are short, and rounds as many as they are of more. One client
# may be missing at the keys.
def _plan(algorithm: AnyAlgorithm, trust: TrustMode, masks: Masks) -> Plan:
    small: dict[str, Any] = {
        "trust": trust,
        "masks": masks,
        "max_dropouts": 1,
        "n_clusters": 1,
        "n_features": 1,
    }
    if algorithm is FASTLLOYD:
        return make_plan(3, **small, n_iterations=2, estimate_loss=True)
    return make_plan(
        3, **small, algorithm=algorithm, epsilon=0.2, estimate_loss=trust is TrustMode.SERVER_NOISE
    )


def _plan_of_five(masks: Masks) -> Plan:
    """Two may be missing, and two may pool what they see."""
    return make_plan(
        5, masks=masks, max_dropouts=2, max_colluding=2, n_clusters=1, n_features=1, n_iterations=2
    )


def subject(algorithm: AnyAlgorithm, trust: TrustMode, masks: Masks) -> str:
    """What a federation is called."""
    return f"{algorithm.name}, {trust.value}, {masks.value}"


FEDERATIONS = {
    subject(*of): make_federation(_plan(*of), seed=2)
    for of in product((FASTLLOYD, MOMENTLLOYD), TrustMode, Masks)
} | {
    f"five clients, {masks.value}": make_federation(_plan_of_five(masks), seed=2) for masks in Masks
}
FEDERATIONS_OF_LIARS = {
    f"{n} clients, {masks.value}": make_federation(
        make_plan(
            n,
            masks=masks,
            max_dropouts=D,
            max_colluding=t,
            n_clusters=1,
            n_features=1,
            n_iterations=1,
        ),
        seed=2,
    )
    for n, D, t in ((3, 0, 1), (4, 1, 1), (5, 2, 2))
    for masks in Masks
}
"""Runs of one round, for lies about keys: none, one or two may be left out."""
BAD_LUCK = (
    "deliver",
    "flow",
    "drop",
    "duplicate",
    "delay",
    "replay",
    "resend",
    "deadline",
    "miss",
    "wander",
    "crash_client",
    "crash_server",
)
ATTACKS = (
    "corrupt",
    "misdirect",
    "impersonate",
    "second_set",
    "two_sets",
    "equivocate",
    "wrong_plan",
    "forge_hello",
    "second_hello",
    "other_deal",
    "second_key_set",
    "false_keys",
    "swap_keys",
    "false_ready",
    "lying_keys",
    "lying_ready",
    "accuse",
    "false_confirmations",
    "lying_confirmation",
    "forged_confirmations",
    "second_box",
    "false_box",
    "false_turn",
    "false_proposal",
    "forged_parameters",
    "false_abort",
    "give_up",
)
IN_ORDER = tuple(what for what in BAD_LUCK if what not in ("drop", "deadline"))
"""Bad luck that costs no letter once keys are shared: `miss` loses some, which are said again."""
KEY_LIES = ("lying_keys", "lying_keys", "lying_ready", "accuse", "silence")
MAX_OPERATIONS = 60
Schedule = list[tuple[str, int, int]]
BEGINNINGS: tuple[Schedule, ...] = (
    *([] for _ in range(3)),
    *(
        [("drop", i, 0), ("flow", 3, 0), ("deadline", 0, 0)] for i in range(3)
    ),  # all but one say Hello, and share keys
)


def often_in_order(operations: tuple[str, ...]) -> tuple[str, ...]:
    """The operations with ordered delivery again and again, or few schedules would get beyond the
    first round.
    """
    return operations + ("flow",) * (len(operations) // 2)


def play(subject: str, watch: Watch, schedule: Schedule) -> Network:
    network = Network((FEDERATIONS | FEDERATIONS_OF_LIARS)[subject], watch)
    for operation, a, b in schedule:
        getattr(network, operation)(a, b)
    network.settle()
    return network


def check_after_bad_luck(network: Network) -> None:
    """Nobody is accused, every sum that anybody opened is exact, and there is an end."""
    assert network.accusations == []
    assert network.server.state in (ServerState.FINISHED, ServerState.ABORTED)
    _check_always(network)
    network.check_exact(lambda _name: True)
    network.check_everybody_opens_the_same()
    if network.server.state is ServerState.FINISHED:
        assert (
            len(network.results) >= network.plan.quorum(len(network.server._present)).confirmations
        )


def check_after_attacks(network: Network) -> None:
    """What finishes is right and the same for all, and nothing was masked or noised twice."""
    _check_always(network)
    network.check_exact(network.results.__contains__)


def check_after_key_lies(network: Network) -> None:
    """Where clients lie about keys and nothing else, nobody is charged before all are ready,
    everyone else ends with the same result or uncharged, and liars take as many with them at most.
    """
    check_after_attacks(network)
    network.check_charged_or_finished()
    network.check_who_is_left_out()


def _check_always(network: Network) -> None:
    network.check_one_plaintext_per_mask()
    network.check_one_key_set()
    network.check_one_key_set_per_mask()
    network.check_keys_are_their_makers()
    network.check_words_are_their_speakers()
    network.check_enough_noise()
    network.check_one_query_per_sum()
    network.check_one_set_per_round()
    network.check_one_box_per_round()
    network.check_one_noise_per_sum()
    network.check_write_ahead()
    network.check_agreement()
