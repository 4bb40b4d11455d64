"""From settings to the plan of a federated run: the grid of the counts, the slack for shares of noise, the ring.

Whatever is chosen here, `Mechanism` and `Plan` check it again when they are made: a mistake costs utility, or is refused.
"""

from fractions import Fraction

import msgspec

from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.federation.plan.plan import PROTOCOL_VERSION, Client, Plan, Server, Study, Timeouts
from fastlloyd.federation.plan.quorum import Masks
from fastlloyd.federation.plan.shares import MIN_SHARE_DEVIATION, TrustMode, aliasing_slack
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.private_run import MAX_COUNT_BITS
from fastlloyd.mechanisms.rounds import SCALE_UNITS
from fastlloyd.mechanisms.settings import RunSettings


def design_plan(
    settings: RunSettings,
    *,
    clients: tuple[Client, ...],
    run_id: bytes,
    server: Server | None = None,
    timeouts: Timeouts | None = None,
    authority: str | None = None,
    study: Study | None = None,
    trust: TrustMode = TrustMode.CLIENT_NOISE,
    max_dropouts: int = 0,
    max_colluding: int = 1,
    ring_bits: int | None = None,
    masks: Masks | None = None,
    host: str | None = None,
) -> Plan:
    """The plan of these settings, whose count_bits and delta_slack are chosen here, for these clients.

    server, timeouts, authority : for a run over a network; None: none, and those of `Timeouts`. study : what it is for, in
    words. max_colluding is ignored in server-noise. ring_bits None: 64. masks None: as
    `chosen_masks` has it. host : the client on whose machine the server runs.
    """
    kind = chosen_masks(masks, max_dropouts)
    persons = settings.persons
    if persons is not None and persons.max_clients > len(clients):
        raise PlanError(
            f"{persons.unit.a} is to be at up to {persons.max_clients} clients, and there are {len(clients)}; say at how many "
            f"one {persons.name} can be at most"
        )
    max_colluding = 0 if trust is TrustMode.SERVER_NOISE else max_colluding
    mechanism = design(settings)
    if trust is TrustMode.CLIENT_NOISE and settings.noise is Noise.GAUSSIAN:
        M = len(clients)
        h = max(1, kind.quorum(M, M, max_dropouts, max_colluding).shares)
        slack = aliasing_slack(settings.epsilon, mechanism.n_released, h)
        settings = msgspec.structs.replace(settings, delta_slack=slack)
        count_bits = _count_bits(design(settings).count_scales, h)
        mechanism = design(msgspec.structs.replace(settings, count_bits=count_bits))
    plan = Plan(
        protocol_version=PROTOCOL_VERSION,
        run_id=run_id.hex(),
        trust=trust,
        max_dropouts=max_dropouts,
        max_colluding=max_colluding,
        ring_bits=ring_bits or 64,
        clients=clients,
        mechanism=mechanism,
        server=Server() if server is None else server,
        timeouts=kind.timeouts if timeouts is None else timeouts,
        authority=authority,
        study=study,
        masks=kind,
        host=host,
    )
    mechanism.check_noise([plan.total_scales(round) for round in mechanism.rounds])
    return plan


def chosen_masks(masks: Masks | None, max_dropouts: int) -> Masks:
    """The masks named; None: pairwise, if no client may be missing. Raises PlanError where either kind costs something."""
    if masks is not None:
        return masks
    if max_dropouts > 0:
        raise PlanError(
            f"max_dropouts is {max_dropouts}, so say which masks are meant, --masks pairwise or --masks group: with pairwise "
            "masks clients may be missing when the keys are dealt, but one that is lost later ends the run; with group masks "
            "they may be missing from any round, but the server together with any one client opens every upload"
        )
    return Masks.PAIRWISE


def _count_bits(count_scales: tuple[Fraction, ...], n_shares: int) -> int:
    """c, the least number of bits that gives every share of the counts' noise a deviation of at least 4 units."""
    # Less than one unit is due to rounding up, which on a finer grid adds less.
    smallest = min(count_scales) - Fraction(1, SCALE_UNITS)
    c = 0
    while c <= MAX_COUNT_BITS and (smallest * 2**c) ** 2 < MIN_SHARE_DEVIATION**2 * n_shares:
        c += 1
    return c
