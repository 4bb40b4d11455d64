"""Privacy statement of a mechanism or plan: its promise and its gaps, for programs and for
people.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec

from fastlloyd._version import __version__
from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.precision import epsilon_up
from fastlloyd.dp.gdp import mu_from_squared
from fastlloyd.dp.noise import Noise
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.plan.quorum import Masks, TrustMode
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.reports.coalitions import coalitions, holds_against, one_share_epsilon
from fastlloyd.reports.outside import (
    COVERS_RUN,
    TAKEN,
    UNPROTECTED,
    Fact,
    outside,
    outside_of_plan,
)

STATEMENT_VERSION = 2

LARGE_EPSILON = 10.0
ENOUGH_FOR_TWO = 5  # clients, of whom two may pool what they see for a little more noise

NOT_COVERED = (
    "NOT PRIVATE: settings were taken from the data (taken_from_the_data in the privacy statement"
    " says which); epsilon and delta would hold if these settings were public"
)
PROTECTED_LOSS = "the estimate of the loss of the final centroids"


def whole_person(persons: Persons, *, federated: bool = True) -> str:
    """Return which rows belong to one person, and how often a person counts."""
    one, c = persons.name, persons.max_clients
    if not federated:
        return (
            f"One {one}: all rows under one id; each {one} counts once, whatever the number of rows"
        )
    return (
        f"One {one}: all rows under one id, at up to {c} organisation{'s' if c > 1 else ''}; each"
        f" {one} counts once at each organisation, whatever the number of rows"
    )


def protected(m: AnyRun, *, federated: bool) -> list[str]:
    """Return what the guarantee covers, and which data sets it compares."""
    unit = (
        "one record (one row)"
        if m.persons is None
        else whole_person(m.persons, federated=federated)
    )
    return [
        f"every noisy answer of the run, {m.revealed}, and what is computed from them later",
        (
            f"{unit}{':' if m.persons is None else ';'} the guarantee compares data sets that"
            f" differ in one {m.unit.one}"
        ),
        *([PROTECTED_LOSS] if m.n_rounds > len(m.rounds) else []),
    ]


def profile_deviation(plan: Plan) -> float:
    """Return the standard error with which all other organisations together know an organisation's
    number of records, or of persons.

    They subtract their own records and noise from the noisy sums, so only one share of noise is
    left (or the server's noise). All answers that count every record are combined, each weighted by
    its noise. If a radius leaves records out, only the records within it are counted.
    """
    m = plan.mechanism
    weights = Fraction(0)
    for round in m.rounds:
        shared = plan.trust is TrustMode.CLIENT_NOISE
        scales = plan.share_scales(round, plan.n_clients) if shared else plan.total_scales(round)
        weights += round.information_on_number(m, scales)
    return m.noise.spread / math.sqrt(weights) / float(2**m.number_bits)


def totals(plan: Plan) -> str:
    """Return what organisations learn about another's records as a whole when they subtract their
    own from the noisy sums.
    """
    many = plan.mechanism.unit.many
    known = (
        f"its number of {many}, with a standard error of {profile_deviation(plan):.2g},"
        f" {plan.mechanism.told_by_totals}. The noise hides single {many}, not what all {many} of"
        " an organisation add up to"
    )
    if plan.n_clients == 2:
        return (
            "with two organisations each takes its own numbers away from the noisy sums and has"
            f" the other's: {known}"
        )
    return (
        "if all organisations but one pool what they see, they have what the last one's records"
        f" add up to: {known}"
    )


def cautions(m: AnyRun, epsilon: float | None = None) -> list[str]:
    """Return sentences about a guarantee that is true but weak, for the screen and the statement.

    epsilon : the epsilon spent, or None for the mechanism's.
    """
    said, epsilon = [], m.epsilon if epsilon is None else epsilon
    if LARGE_EPSILON < epsilon < math.inf:
        said.append(
            f"epsilon is {epsilon:g}: one {m.unit.one} may change the probability of an outcome by"
            f" a factor of e^{epsilon:g}, which protects hardly anything; values around 1 are"
            " common"
        )
    if m.delta * 100 * m.n_records <= 1 + 1e-9:
        return said
    exposed = float(f"{m.delta * m.n_records:.2g}")
    caution = (
        f"delta is {m.delta:.3g}, above 1 / (100 n_records): such a guarantee would let"
        f" {exposed:,.12g} {m.unit.many} be exposed outright on average; leave delta out, or pass a"
        " smaller one"
    )
    return [*said, caution]


def plan_cautions(plan: Plan) -> list[str]:
    """Return the cautions of the plan's mechanism, and, unless the plan is for a simulation, those
    on few clients in a sum.

    Such plans can still be read, although `plan new` no longer makes one whose clients can be led
    to two results.
    """
    m, n, D = plan.mechanism, plan.n_clients, plan.max_dropouts
    said = [*([NOT_COVERED] if m.taken_from_the_data else []), *cautions(m)]
    if plan.simulated:
        return said
    if n == 2:
        said.append(f"{totals(plan)}; agree that both may know it, or invite a third")
    if plan.min_present == 2 < n:
        said.append(
            f"with {D} of {n} clients absent a round is the sum of two: each of the two subtracts"
            " its own numbers and has the other's sums and counts, with noise that hides single"
            f" {m.unit.many} but not what they add up to; allow"
            f" {_dropouts(min(n - 3, plan.most_dropouts))}, or agree that"
            " these two may know it"
        )
    if plan.is_divisible:
        said.append(
            f"up to {D} of {n} clients may be missing and {plan.max_colluding} may pool what they"
            " see: these, with a server that breaks the protocol, can lead two groups of the others"
            " to two results, which nobody notices who does not compare them."
            f" {_price_of_two_groups(plan)}. Make a new plan, with {_dropouts(plan.most_dropouts)}"
        )
    if plan.host is not None and plan.max_colluding == 1 and n >= ENOUGH_FOR_TWO:
        said.append(
            f"client {plan.host!r} hosts the server and is one of those who may pool what they see,"
            " so that max_colluding 1 allows for no other; with five clients or more allow for two"
            " (--max-colluding 2)"
        )
    return said


def _price_of_two_groups(plan: Plan) -> str:
    """Return what the results of two groups of clients, with no client in both, reveal together
    about the records (or persons) of one client.
    """
    m = plan.mechanism
    if plan.masks is Masks.PAIRWISE:
        if m.persons is not None:
            return f"Both together tell no more of one {m.unit.one} than the plan says"
        return "Each record is in one of them only, and is protected as the plan says even so"
    more = (
        f", where the plan says {epsilon_up(m.epsilon)}"
        if plan.n_shares > 1
        else ", which is what the plan says"
    )
    return (
        f"It, and who reads both, then learns about one client's {m.unit.many} what one share of"
        f" noise lets through: at most epsilon {one_share_epsilon(plan):.4g}{more}"
    )


def _dropouts(at_most: int) -> str:
    return f"at most {at_most} dropout{'s' if at_most > 1 else ''}" if at_most else "no dropouts"


class PrivacyStatement(dict[str, Any]):
    """Dict whose repr is one line; `json.dumps` and `dict` give all of it."""

    SHOWN = (
        "mechanism",
        "private",
        "covers",
        "epsilon",
        "delta",
        "mu",
        "neighboring_relation",
        "data_set",
    )

    def __repr__(self) -> str:
        """Show the most important entries and how many there are."""
        shown = ", ".join(
            f"{name}={self[name]!r}" for name in self.SHOWN if self.get(name) is not None
        )
        return f"<{type(self).__name__} {shown}; {len(self)} entries>"


def mechanism_statement(m: AnyRun, *, federated: bool = False) -> dict[str, Any]:
    """Return the privacy statement for programs (`privacy.json`, `privacy_spent_`) of a run of the
    central model.

    federated : state it for a run of several organisations.
    """
    return _with_taken(m, _stated(m, federated=federated))


def _stated(m: AnyRun, *, federated: bool) -> dict[str, Any]:
    """Return the statement as if all settings were public."""
    private = m.noise is not Noise.NONE
    accountant = m.accountant()
    gaussian = m.noise is Noise.GAUSSIAN
    return {
        "statement_version": STATEMENT_VERSION,
        "fastlloyd_version": __version__,
        "private": private,
        "covers": COVERS_RUN,
        "mechanism": m.name,
        "noise": {
            "none": "none",
            "gaussian": "exactly rounded Gaussian",
            "laplace": "two-sided geometric (discrete Laplace)",
        }[m.noise.value],
        "epsilon": m.epsilon if private else None,
        "delta": m.delta if private else None,
        "delta_slack": m.delta_slack,
        "mu": mu_from_squared(accountant.mu_squared) if gaussian else None,
        "pure_epsilon": float(accountant.pure_epsilon) if private and not gaussian else None,
        # by the second route, integration
        "delta_accounted": accountant.get_delta(m.epsilon) + m.delta_slack if private else None,
        "neighboring_relation": m.neighboring_relation.value,
        "unit_of_protection": (
            "one record (row)"
            if m.persons is None
            else whole_person(m.persons, federated=federated)
        ),
        **({} if m.persons is None else {"persons": msgspec.structs.asdict(m.persons)}),
        "n_rounds": len(m.rounds),
        "n_records_cap": m.n_records,
        "features": list(m.domain.features),
        "rounds": [
            {"round": number} | round.statement(m) for number, round in enumerate(m.rounds, 1)
        ],
        **m.facts(),
        "units": _units(m),
        "protected": protected(m, federated=federated) if private else [],
        "outside_the_guarantee": _said(
            outside(m, federated=federated) if private else [UNPROTECTED]
        ),
        "cautions": cautions(m),
        "mechanism_digest": m.digest.hex(),
    }


def _units(m: AnyRun) -> dict[str, str]:
    """Return the units of sums, counts and noise scales in the statement."""
    gaussian = m.noise is Noise.GAUSSIAN
    return {
        "sum": (
            m.sum_unit
            if m.persons is None
            else f"{m.sum_unit}; {m.unit.a} has {m.persons.shares} shares"
        ),
        "count": f"2**-{m.number_bits} {m.unit.many}",
        "noise_scale": (
            "standard deviation" if gaussian else "scale b of P(x) proportional to exp(-|x|/b)"
        ),
    }


def with_radius(statement: dict[str, Any], radius: FloatArray | None) -> dict[str, Any]:
    """Return the statement with R of the intervals, by feature, or None if they have none.

    radius : float64 (n_features,), original units.
    """
    shown = (
        None if radius is None else dict(zip(statement["features"], radius.tolist(), strict=True))
    )
    return statement | {"intervals": statement["intervals"] | {"radius": shown}}


def _said(facts: Sequence[Fact]) -> list[dict[str, str]]:
    """Return facts for machines."""
    return [{"code": fact.code, "sentence": fact.sentence} for fact in facts]


def _with_taken(m: AnyRun, statement: dict[str, Any]) -> dict[str, Any]:
    """Return the statement with the settings that were taken from the data.

    If settings are taken from the data, neighbouring data sets have different domains or caps, and
    the noise does not cover that.
    """
    taken = {"taken_from_the_data": list(m.taken_from_the_data or ())}
    if not m.taken_from_the_data or not statement["private"]:
        return statement | taken
    others = [caution for caution in statement["cautions"] if caution != NOT_COVERED]
    return (
        statement
        | taken
        | {
            "private": False,
            "protected": [],
            "outside_the_guarantee": [*_said([TAKEN]), *statement["outside_the_guarantee"]],
            "cautions": [NOT_COVERED, *others],
        }
    )


def plan_statement(plan: Plan, n_included: int | None = None) -> dict[str, Any]:
    """Return the statement of a federated run: that of its mechanism, the trust mode, and epsilon
    for every coalition, the worst over all sets of clients that may be present.

    n_included : number of clients in the last sum of a finished run, or None before it. It changes
        the scales of the shares of noise, which before the run are given as if all clients join. No
        epsilon depends on it.
    """
    n = plan.n_clients if n_included is None else n_included
    shared, rounds = plan.trust is TrustMode.CLIENT_NOISE, plan.mechanism.all_rounds
    statement = _stated(plan.mechanism, federated=True)
    statement["cautions"] = plan_cautions(plan)
    if statement["private"]:
        statement["outside_the_guarantee"] = _said(outside_of_plan(plan))
    statement["federated"] = {
        "trust": plan.trust.value,
        "masks": plan.masks.value,
        "host": plan.host,
        "simulated": bool(plan.simulated),
        "holds_against": holds_against(plan),
        "n_clients": plan.n_clients,
        "n_included": n_included,
        "max_dropouts": plan.max_dropouts,
        "max_colluding": plan.max_colluding,
        "shares_needed": plan.quorum(n).shares if shared else 1,
        "share_scales": (
            [[str(scale) for scale in plan.share_scales(round, n)] for round in rounds]
            if shared
            else None
        ),
        "coalitions": coalitions(plan),
        "ring_bits": plan.ring_bits,
        "plan_digest": plan.digest.hex(),
        "run_id": plan.run_id,
    }
    return _with_taken(plan.mechanism, statement)
