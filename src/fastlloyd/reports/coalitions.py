"""Coalitions: groups of parties that pool what they see. The guarantee holds against small
coalitions. Against larger coalitions, the same noise gives a larger epsilon.

Let mu be the parameter of the run, and h the number of shares of noise that the guarantee counts
on. Against a party that knows all shares of noise in a sum except u of them, the parameter is mu
sqrt(h / u) (docs/proofs/shares-of-noise.md).
"""

from fractions import Fraction
from functools import partial

from fastlloyd.base.precision import epsilon_up, round_up
from fastlloyd.dp.gdp import gdp_epsilon, mu_from_squared
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import BudgetError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.plan.quorum import Masks, TrustMode, aliasing_slack
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.persons import max_clients
from fastlloyd.mechanisms.private_run import usable_delta

Row = tuple[Fact, float | None]  # who, and epsilon


def coalitions(plan: Plan) -> list[Row]:
    """Return each coalition with the epsilon of the run against it, at the plan's delta.

    The epsilon is the largest over all sets of clients that may be present. It is None if the
    coalition breaks the guarantee. A simulation has no parties, so its list is empty.
    """
    if plan.simulated:
        return []
    if plan.trust is TrustMode.SERVER_NOISE:
        epsilon = plan.mechanism.epsilon
        return [
            (Fact.of("readers"), epsilon),
            *((Fact.of("clients_alone", n=s), epsilon) for s in _sizes(plan.n_clients)),
            (Fact.of("server_with_result"), None),
        ]
    return (_behind_a_group_key if plan.masks is Masks.GROUP else _behind_keys_of_pairs)(plan)


def _behind_a_group_key(plan: Plan) -> list[Row]:
    """Return each coalition with the epsilon against it, for client-noise with group masks.

    Let M be the number of clients, D the number of dropouts, and u = M - D - s. If s clients pool
    what they see, u shares of noise are unknown to them. This multiplies mu by sqrt(h / u). The
    server together with any client can read every upload, which is protected by only one share.
    Against these two, the parameter is mu sqrt(h).
    """
    mu_squared, h = plan.mechanism.accountant().mu_squared, plan.n_shares

    def left(s: int) -> float | None:
        unknown = plan.min_present - s
        return _epsilon(plan, mu_squared * h / unknown, unknown) if unknown > 0 else None

    return [
        (Fact.of("server_alone"), left(0)),
        *((Fact.of("clients_alone", n=s), left(s)) for s in _sizes(plan.n_clients)),
        (Fact.of("server_with_any_client"), one_share_epsilon(plan)),
    ]


def _behind_keys_of_pairs(plan: Plan) -> list[Row]:
    """Return each coalition with the epsilon against it, for client-noise with pairwise masks.

    n clients take part, and the guarantee counts on n - t of their shares. If s clients pool what
    they see, n - s shares are unknown to them. This multiplies mu by sqrt((n - t) / (n - s)), with
    or without the server. The worst n is the largest possible n for s < t, and the smallest for s >
    t.
    """
    mu_squared, t = plan.mechanism.accountant().mu_squared, plan.max_colluding
    least, most = plan.min_present, plan.n_clients

    def left(s: int) -> float | None:
        n = most if s <= t else least
        # the slack grows with the shares: that of the largest n holds for every one
        return _epsilon(plan, mu_squared * Fraction(n - t, n - s), most - s) if s < least else None

    # whoever hosts the server is one of the s: neither is the server a party without a share, nor
    # does it come on top
    if plan.host is None:
        alone, those = Fact.of("server"), partial(Fact.of, "clients_and_server")
    else:
        alone = Fact.of("readers_of_results")
        those = partial(Fact.of, "clients_and_host", host=plan.host)
    return [(alone, left(0)), *((those(n=s), left(s)) for s in _sizes(most))]


def _sizes(n_clients: int) -> list[int]:
    """Return the sizes of coalitions to list, ascending: all up to 20, about 20 larger ones, and
    n_clients - 1.
    """
    M = n_clients
    return sorted({*range(1, min(M, 21)), *range(21, M, max(1, M // 20)), *range(max(1, M - 1), M)})


def holds_against(plan: Plan) -> Fact:
    """Return the fact about the parties against which the guarantee holds.

    A client that hosts the server counts as one of the clients that may pool what they see.
    """
    t = plan.max_colluding
    if plan.simulated:
        return Fact.of("against_readers")
    if plan.trust is TrustMode.SERVER_NOISE:
        return Fact.of("against_clients")
    if plan.masks is Masks.GROUP:
        return Fact.of("against_either", n=t)
    if plan.host is None:
        return Fact.of("against_both", n=t)
    if t == 1:
        return Fact.of("against_host", host=plan.host)
    return Fact.of("against_host_and_others", host=plan.host, n=t - 1)


def person_epsilon(plan: Plan, n: int) -> float:
    """Return epsilon, at the plan's delta, for a person with n records at one organisation or at
    several.

    If the run protects persons, n is the number of organisations with rows of the person.
    """
    m, factor = plan.mechanism, Fraction(n, max_clients(plan.mechanism.persons))
    if m.noise is Noise.LAPLACE:
        return round_up(factor * m.accountant().pure_epsilon)
    if plan.trust is TrustMode.SERVER_NOISE:
        return gdp_epsilon(mu_from_squared(factor**2 * m.accountant().mu_squared), m.delta)
    return _epsilon(plan, factor**2 * m.accountant().mu_squared, plan.n_shares, factor)


def one_share_epsilon(plan: Plan) -> float:
    """Return epsilon, at the plan's delta, against a party that sees all answers of one client,
    each with only that client's share of noise.

    For a plan whose clients add the noise (client-noise), it is the epsilon of Gaussian
    differential privacy with parameter mu sqrt(h), where h shares of noise make the guarantee
    (docs/proofs/shares-of-noise.md). With group masks, the server together with one client sees
    this much. A server that breaks the protocol can make clients open sums over other sets of
    clients, but these sums reveal no more.
    """
    return _gaussian(plan.mechanism.accountant().mu_squared * plan.n_shares, plan.mechanism.delta)


def price_of_two_results(plan: Plan) -> Fact:
    """Return the fact about the privacy of one client's records if two groups of clients confirm
    different results.

    No honest client is in both groups. Two results may together reveal more about records than a
    single result.
    """
    if plan.masks is Masks.PAIRWISE:
        return Fact.of(
            f"two_results_of_{'records' if plan.mechanism.persons is None else 'persons'}"
        )
    epsilon, planned = one_share_epsilon(plan), epsilon_up(plan.mechanism.epsilon)
    name = "shares" if plan.n_shares > 1 else "one_share"
    return Fact.of(f"two_results_of_{name}", epsilon=epsilon, planned=planned)


def _epsilon(
    plan: Plan, mu_squared: Fraction, n_unknown: int, factor: Fraction = Fraction(1)
) -> float:
    """Return epsilon of a release against observers who do not know `n_unknown` shares of its
    noise.

    plan : plan of the run.
    mu_squared : mu^2 of the release with the noise of the unknown shares alone.
    n_unknown : number of unknown shares.
    factor : number of records of the person, divided by the number of records that the plan's mu
        covers.
    """
    m, of_one = plan.mechanism, factor**2 * plan.mechanism.accountant().mu_squared * plan.n_shares
    if n_unknown == 1:  # one share is a rounded Gaussian: nothing is lost by adding up
        return _gaussian(mu_squared, m.delta)
    slack = aliasing_slack(m.epsilon, m.n_released, n_unknown)
    try:
        while True:
            epsilon = _gaussian(mu_squared, usable_delta(m.delta, slack))
            needed = aliasing_slack(epsilon, m.n_released, n_unknown)
            if needed <= slack:
                return epsilon
            slack = 2 * needed
    # too large an epsilon for shares to be added up: count one of them, the others are
    # post-processing
    except BudgetError:
        return _gaussian(of_one, m.delta)


def _gaussian(mu_squared: Fraction, delta: float) -> float:
    return gdp_epsilon(mu_from_squared(mu_squared), delta)
