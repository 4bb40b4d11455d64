"""Schedules for the virtual network: what can happen in one, and what must hold after it, whatever happened."""

from fastlloyd.federation.plan.plan import TrustMode
from fastlloyd.federation.protocol.transitions import ServerState
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from federation import make_federation, make_plan
from virtual_network import Network, Watch

# One cluster of one feature: messages are short, and rounds as many as they are of more.
FEDERATIONS = {
    trust.value: make_federation(
        make_plan(3, trust=trust, max_dropouts=1, n_clusters=1, n_features=1, n_iterations=2, estimate_loss=True), seed=2
    )
    for trust in TrustMode
} | {
    f"momentlloyd, {trust.value}": make_federation(
        make_plan(
            3, trust=trust, max_dropouts=1, n_clusters=1, n_features=1, algorithm=MOMENTLLOYD, epsilon=0.2,
            estimate_loss=trust is TrustMode.SERVER_NOISE,
        ),
        seed=2,
    )
    for trust in TrustMode
}  # fmt: skip
BAD_LUCK = (
    "deliver",
    "flow",
    "drop",
    "duplicate",
    "delay",
    "replay",
    "resend",
    "deadline",
    "wander",
    "crash_client",
    "crash_server",
)
ATTACKS = (
    "corrupt",
    "misdirect",
    "second_set",
    "two_sets",
    "equivocate",
    "wrong_plan",
    "forge_hello",
    "false_keys",
    "false_confirmations",
    "second_box",
    "false_box",
    "false_turn",
    "false_proposal",
    "false_abort",
    "give_up",
)
MAX_OPERATIONS = 60
Schedule = list[tuple[str, int, int]]


def often_in_order(operations: tuple[str, ...]) -> tuple[str, ...]:
    """The operations with ordered delivery again and again, or few schedules would get beyond the first round."""
    return operations + ("flow",) * (len(operations) // 2)


def play(subject: str, watch: Watch, schedule: Schedule) -> Network:
    network = Network(FEDERATIONS[subject], watch)
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
        assert len(network.results) >= network.plan.min_included


def check_after_attacks(network: Network) -> None:
    """What finishes is right and the same for all, and nothing was masked or noised twice."""
    _check_always(network)
    network.check_exact(network.results.__contains__)


def _check_always(network: Network) -> None:
    network.check_one_plaintext_per_mask()
    network.check_one_set_per_round()
    network.check_one_box_per_round()
    network.check_one_noise_per_sum()
    network.check_write_ahead()
    network.check_agreement()
