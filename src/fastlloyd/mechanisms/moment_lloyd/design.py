"""From a guarantee and public numbers to the mechanism of MomentLloyd, which the mechanism checks again when it is made."""

import operator
from fractions import Fraction

from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.mechanisms.lloyd import budget
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.loss import check_loss_share, chosen_loss_share, loss_round
from fastlloyd.mechanisms.mechanism import check_grid, check_numbers, usable_delta
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.planner import UNITS, plan_rounds
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD


def design_moments(
    domain: Domain,
    *,
    n_clusters: int,
    n_records: int,
    epsilon: float,
    delta: float | None = None,
    public_seed: PublicSeed,
    n_expected: int | None = None,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    estimate_loss: bool = False,
    loss_share: float | Fraction | None = None,
    count_bits: int = 0,
    delta_slack: float = 0.0,
) -> MomentMechanism:
    """Choose rounds and noise of MomentLloyd for the guarantee (epsilon, delta).

    delta None: 1 / (100 n_records). n_expected None: n_records. estimate_loss, loss_share : as for `design_mechanism`.
    Raises BudgetError or PlanError naming the setting.
    """
    n_clusters, n_records, count_bits = map(operator.index, (n_clusters, n_records, count_bits))
    n_expected = n_records if n_expected is None else operator.index(n_expected)
    check_numbers(n_clusters, n_records, epsilon, MOMENTLLOYD.noise)
    check_grid(n_expected, count_bits)
    check_loss_share(loss_share, estimate_loss=estimate_loss)
    delta = 1 / (100 * n_records) if delta is None else delta
    mu = gdp_mu(epsilon, usable_delta(delta, delta_slack))
    for_loss = chosen_loss_share(Noise.GAUSSIAN, n_expected, epsilon, mu, loss_share) if estimate_loss else Fraction(0)
    whole = Fraction(mu) ** 2
    loss = None
    if estimate_loss:
        squared_cap = budget.squared_loss_cap(FASTLLOYD, domain, n_clusters)  # the same for all algorithms
        loss = loss_round(Noise.GAUSSIAN, squared_cap, UNITS, Fraction(0), for_loss * whole)
    planned = plan_rounds(
        domain,
        n_clusters=n_clusters,
        n_records=n_records,
        n_expected=n_expected,
        mu_squared=(1 - for_loss) * whole,
        relation=neighboring_relation,
        count_bits=count_bits,
    )
    return MomentMechanism(
        domain=domain,
        n_clusters=n_clusters,
        n_records=n_records,
        n_expected=n_expected,
        epsilon=float(epsilon),
        delta=float(delta),
        delta_slack=float(delta_slack),
        neighboring_relation=neighboring_relation,
        public_seed=public_seed.hex(),
        count_bits=count_bits,
        n_directions=planned.n_directions,
        edge=planned.edge,
        rounds=planned.rounds,
        loss=loss,
    )
