"""From a guarantee and public numbers to a mechanism or a plan: radii, iterations, noise, the grid of the counts, the ring.

Whatever is chosen here, `Mechanism` and `Plan` check it again when they are made: a mistake in this file costs utility, or is
refused.
"""

import math
import operator
from fractions import Fraction
from typing import Any

from fastlloyd.base.precision import exact, fifty_digits
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.packing import RadiusSearch, initial_centroids
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.federation.plan.plan import (
    MIN_SHARE_DEVIATION,
    PROTOCOL_VERSION,
    Client,
    Plan,
    Server,
    Study,
    Timeouts,
    TrustMode,
    aliasing_slack,
)
from fastlloyd.mechanisms.catalogue import AnyAlgorithm, AnyMechanism
from fastlloyd.mechanisms.lloyd import budget
from fastlloyd.mechanisms.lloyd.algorithm import Algorithm
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism, check_alpha
from fastlloyd.mechanisms.loss import check_loss_share, chosen_loss_share, loss_round, scale_up
from fastlloyd.mechanisms.mechanism import MAX_COUNT_BITS, MAX_ROUNDS, check_grid, check_numbers, usable_delta
from fastlloyd.mechanisms.moment_lloyd.design import design_moments
from fastlloyd.mechanisms.moment_lloyd.rounds import MomentAlgorithm
from fastlloyd.mechanisms.queries.relative import Sensitivity, centroids_digest, sensitivity
from fastlloyd.mechanisms.rounds import SCALE_UNITS, Round


def design_mechanism(
    algorithm: Algorithm,
    domain: Domain,
    *,
    n_clusters: int,
    n_records: int,
    epsilon: float,
    delta: float | None = None,
    public_seed: PublicSeed,
    n_expected: int | None = None,
    n_iterations: int | None = None,
    initialization: RadiusSearch = RadiusSearch.BISECTION,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    min_count: Fraction | None = None,
    estimate_loss: bool = False,
    loss_share: float | Fraction | None = None,
    count_bits: int = 0,
    delta_slack: float = 0.0,
) -> LloydMechanism:
    """Choose radii, number of iterations and noise for the guarantee (epsilon, delta).

    delta None: 1 / (100 n_records) (with Laplace noise or none: 0). n_expected None: n_records. n_iterations None: the
    algorithm's rule. min_count None: the standard deviation of the noise on a count. estimate_loss: spend loss_share of the
    budget (of mu^2, with Laplace noise of epsilon; None: `budget.loss_share`) on the loss in the end. Raises BudgetError or
    PlanError naming the setting.
    """
    # NumPy's integers would wrap around in the planner's exact arithmetic, which then never ends
    n_clusters, n_records, count_bits = map(operator.index, (n_clusters, n_records, count_bits))
    n_expected = n_records if n_expected is None else operator.index(n_expected)
    check_numbers(n_clusters, n_records, epsilon, algorithm.noise)
    check_alpha(algorithm)
    check_grid(n_expected, count_bits)
    if algorithm.noise is not Noise.GAUSSIAN:
        delta = 0.0
    elif delta is None:
        delta = 1 / (100 * n_records)
    mu = gdp_mu(epsilon, usable_delta(delta, delta_slack)) if algorithm.noise is Noise.GAUSSIAN else None
    for_loss = chosen_loss_share(algorithm.noise, n_expected, epsilon, mu, loss_share) if estimate_loss else Fraction(0)
    check_loss_share(loss_share, estimate_loss=estimate_loss)
    if n_iterations is None:
        T = budget.n_iterations(algorithm, domain, n_clusters, n_expected, epsilon=epsilon, mu=mu, share=1 - for_loss)
    elif 1 <= n_iterations <= MAX_ROUNDS:
        T = n_iterations
    else:
        raise PlanError(f"n_iterations is {n_iterations}; expected 1 to {MAX_ROUNDS}, or nothing for the planner's choice")
    sensitivities = [(H2, sensitivity(domain, H2, count_bits)) for H2 in budget.squared_radii(algorithm, domain, n_clusters, T)]
    relation = neighboring_relation
    # the budget, exactly: pure epsilon, and squared mu
    whole = (Fraction(0), Fraction(0)) if algorithm.noise is Noise.NONE else (Fraction(epsilon), Fraction(mu or 0) ** 2)
    eps, mu2 = ((1 - for_loss) * total for total in whole)
    rounds = tuple(_round(algorithm, domain, H2, s, T, relation, eps, mu2) for H2, s in sensitivities)
    largest = max(s.coordinate for _, s in sensitivities)
    squared_cap = budget.squared_loss_cap(algorithm, domain, n_clusters) if estimate_loss else None
    eps_loss, mu2_loss = (for_loss * total for total in whole)
    loss = None if squared_cap is None else loss_round(algorithm.noise, squared_cap, largest, eps_loss, mu2_loss)
    if min_count is None:
        min_count = default_min_count(algorithm.noise, rounds[-1], count_bits)
    seed = public_seed
    start = initial_centroids(domain, n_clusters, seed, initialization)
    return LloydMechanism(
        algorithm=algorithm,
        domain=domain,
        n_clusters=n_clusters,
        n_records=n_records,
        n_expected=n_expected,
        epsilon=float(epsilon) if algorithm.noise is not Noise.NONE else math.inf,
        delta=float(delta),
        delta_slack=float(delta_slack),
        neighboring_relation=relation,
        initialization=initialization,
        public_seed=seed.hex(),
        min_count=Fraction(min_count),
        count_bits=count_bits,
        initial_centroids_digest=centroids_digest(start).hex(),
        rounds=rounds,
        loss=loss,
    )


def design_any(
    algorithm: AnyAlgorithm,
    domain: Domain,
    *,
    n_iterations: int | None = None,
    initialization: RadiusSearch = RadiusSearch.BISECTION,
    min_count: Fraction | None = None,
    **settings: Any,
) -> AnyMechanism:
    """`design_mechanism`, or for MomentLloyd `design_moments`, which has no use for the settings named here."""
    if isinstance(algorithm, MomentAlgorithm):
        for name, value in {"n_iterations": n_iterations, "min_count": min_count}.items():
            if value is not None:
                raise PlanError(f"{name} has no effect on {algorithm.name}, which plans by itself; leave it out")
        return design_moments(domain, **settings)
    own: dict[str, Any] = {"n_iterations": n_iterations, "initialization": initialization, "min_count": min_count}
    return design_mechanism(algorithm, domain, **own, **settings)


def design_plan(
    algorithm: AnyAlgorithm,
    domain: Domain,
    *,
    clients: tuple[Client, ...],
    run_id: bytes,
    server: Server | None = None,
    timeouts: Timeouts | None = None,
    authority: str | None = None,
    study: Study | None = None,
    n_clusters: int,
    epsilon: float,
    delta: float | None = None,
    public_seed: PublicSeed,
    trust: TrustMode = TrustMode.CLIENT_NOISE,
    max_dropouts: int = 0,
    max_colluding: int = 1,
    ring_bits: int | None = None,
    n_records: int | None = None,
    n_expected: int | None = None,
    n_iterations: int | None = None,
    initialization: RadiusSearch = RadiusSearch.BISECTION,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    min_count: Fraction | None = None,
    estimate_loss: bool = False,
    loss_share: float | Fraction | None = None,
) -> Plan:
    """Choose everything `design_mechanism` chooses, and the count grid and ring width of a federated run.

    server, timeouts, authority : for a run over a network; None: none, and those of `Timeouts`. study : what it is for, in
    words. n_records None: the sum of the clients' caps. max_colluding is ignored in server-noise. ring_bits None: 64.
    """
    n_records = sum(client.max_records for client in clients) if n_records is None else n_records
    max_colluding = 0 if trust is TrustMode.SERVER_NOISE else max_colluding

    def mechanism(count_bits: int, delta_slack: float) -> AnyMechanism:
        return design_any(
            algorithm,
            domain,
            n_clusters=n_clusters,
            n_records=n_records,
            epsilon=epsilon,
            delta=delta,
            public_seed=public_seed,
            n_expected=n_expected,
            n_iterations=n_iterations,
            initialization=initialization,
            neighboring_relation=neighboring_relation,
            min_count=min_count,
            estimate_loss=estimate_loss,
            loss_share=loss_share,
            count_bits=count_bits,
            delta_slack=delta_slack,
        )

    planned = mechanism(0, 0.0)
    if trust is TrustMode.CLIENT_NOISE and algorithm.noise is Noise.GAUSSIAN:
        h = max(1, len(clients) - max_dropouts - max_colluding)
        slack = aliasing_slack(epsilon, planned.n_released, h)
        count_bits = _count_bits(mechanism(0, slack).count_scales, h)
        planned = mechanism(count_bits, slack)
    return Plan(
        protocol_version=PROTOCOL_VERSION,
        run_id=run_id.hex(),
        trust=trust,
        max_dropouts=max_dropouts,
        max_colluding=max_colluding,
        ring_bits=ring_bits or 64,
        clients=clients,
        mechanism=planned,
        server=Server() if server is None else server,
        timeouts=Timeouts() if timeouts is None else timeouts,
        authority=authority,
        study=study,
    )


def default_min_count(noise: Noise, round: Round, count_bits: int) -> Fraction:
    """The floor under noisy counts: the standard deviation of the last round's count noise, at least 1 record.

    Below it not even the sign of a count is reliable, and a division moves the centroid anywhere within the radius. One
    deviation was picked among 0, 1/2, 1 and 2 by looking at the loss on iris, s1 and wine: results on these sets with this
    default are not those of an untuned setting (the preset `paper` has no floor).
    """
    if noise is Noise.NONE:
        return Fraction(1)
    deviation = round.count_scale / 2**count_bits
    if noise is Noise.LAPLACE:
        deviation *= Fraction(3, 2)  # the standard deviation of Laplace noise is sqrt 2 times its scale
    return max(Fraction(1), Fraction(math.ceil(deviation)))


def _round(
    algorithm: Algorithm,
    domain: Domain,
    squared_radius: int | None,
    s: Sensitivity,
    T: int,
    relation: NeighboringRelation,
    epsilon: Fraction,
    mu_squared: Fraction,
) -> Round:
    """Noise scales of one round out of T, each rounded up; epsilon and mu_squared are what all rounds have together."""
    replace = relation is NeighboringRelation.REPLACE_ONE
    if algorithm.noise is Noise.NONE:
        return Round(sum_scale=Fraction(0), count_scale=Fraction(0), squared_radius=squared_radius)
    with fifty_digits() as mp:
        counts = budget.count_share(mp, algorithm, domain.n_features)
        sums = 1 - counts
        if algorithm.noise is Noise.LAPLACE:
            per_round = exact(mp, epsilon) / T / (2 if replace else 1)
            sum_scale, count_scale = s.l1 / (sums * per_round), s.count / (counts * per_round)
        else:
            worst = max(4 * sums, 2) if replace else 1
            mu2 = exact(mp, mu_squared) / (T * worst)
            sum_scale, count_scale = (s.squared_l2 / (sums * mu2)) ** 0.5, (s.count**2 / (counts * mu2)) ** 0.5
        return Round(sum_scale=scale_up(mp, sum_scale), count_scale=scale_up(mp, count_scale), squared_radius=squared_radius)


def _count_bits(count_scales: tuple[Fraction, ...], n_shares: int) -> int:
    """c, the least number of bits that gives every share of the counts' noise a deviation of at least 4 units."""
    # Less than one unit is due to rounding up, which on a finer grid adds less.
    smallest = min(count_scales) - Fraction(1, SCALE_UNITS)
    c = 0
    while c <= MAX_COUNT_BITS and (smallest * 2**c) ** 2 < MIN_SHARE_DEVIATION**2 * n_shares:
        c += 1
    return c
