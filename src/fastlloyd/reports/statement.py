"""Privacy statement of a mechanism or plan: the guarantee and its limits, for programs and for
people.
"""

from fractions import Fraction
from typing import Any

import msgspec

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.precision import exact, round_up, working_precision
from fastlloyd.base.version import __version__
from fastlloyd.dp.gdp import mu_from_squared
from fastlloyd.dp.noise import Noise
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.plan.quorum import TrustMode
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.reports.coalitions import coalitions, holds_against
from fastlloyd.reports.facts import said, sentence, worded
from fastlloyd.reports.outside import (
    COVERS_RUN,
    TAKEN,
    UNPROTECTED,
    outside,
    outside_of_plan,
    stated,
)
from fastlloyd.reports.plan_facts import (
    NOT_COVERED,
    cautions,
    plan_cautions,
    protected,
    whole_person,
)

STATEMENT_VERSION = 2
_BITS = 200  # of precision


class PrivacyStatement(dict[str, Any]):
    """Dict whose repr is one line. `json.dumps` and `dict` give all entries."""

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
        """Return a line with the most important entries and the number of all entries."""
        shown = ", ".join(
            f"{name}={self[name]!r}" for name in self.SHOWN if self.get(name) is not None
        )
        return f"<{type(self).__name__} {shown}; {len(self)} entries>"


def mechanism_statement(m: AnyRun, *, federated: bool = False) -> dict[str, Any]:
    """Return the privacy statement of a run of the central model, for programs.

    It is the content of `privacy.json` and of `privacy_spent_`.

    m : settings of the run.
    federated : whether the run has several organisations.
    """
    return _with_taken(m, _stated(m, federated=federated))


def _stated(m: AnyRun, *, federated: bool) -> dict[str, Any]:
    """Return the privacy statement as if all settings were public."""
    private = m.noise is not Noise.NONE
    accountant = m.accountant()
    gaussian = m.noise is Noise.GAUSSIAN
    content = {
        "private": private,
        "epsilon": m.epsilon if private else None,
        "delta": m.delta if private else None,
        "unit_of_protection": (
            Fact.of("one_record")
            if m.persons is None
            else whole_person(m.persons, federated=federated)
        ),
        "neighboring_relation": m.neighboring_relation.value,
        "covers": COVERS_RUN,
        **(gaussian_parameters(accountant.mu_squared) if gaussian else {"mu": None, "rho": None}),
        "pure_epsilon": float(accountant.pure_epsilon) if private and not gaussian else None,
        "delta_slack": m.delta_slack,
        # by the second route, integration
        "delta_accounted": accountant.get_delta(m.epsilon) + m.delta_slack if private else None,
        "mechanism": m.name,
        "noise": Fact.of(f"noise_{m.noise.value}"),
        "fastlloyd_version": __version__,
        "statement_version": STATEMENT_VERSION,
        **({} if m.persons is None else {"persons": msgspec.structs.asdict(m.persons)}),
        "n_rounds": len(m.rounds),
        "n_records_cap": m.n_records,
        "features": list(m.domain.features),
        "rounds": [{"round": number} | round.facts(m) for number, round in enumerate(m.rounds, 1)],
        **m.facts(),
        "units": _units(m),
        "protected": protected(m, federated=federated) if private else [],
        "outside_the_guarantee": stated(
            outside(m, federated=federated) if private else [UNPROTECTED], m.unit
        ),
        "cautions": cautions(m),
        "mechanism_digest": m.digest.hex(),
    }
    return dict(worded(content, m.unit))


def gaussian_parameters(mu_squared: Fraction) -> dict[str, float]:
    """Return mu of mu-GDP and rho of rho-zCDP of a run with Gaussian noise, both rounded up.

    mu^2 / 2 = rho for Gaussian noise (Bun and Steinke 2016, proposition 1.6).

    mu_squared : square of mu.
    """
    with working_precision(_BITS) as mp:
        return {
            "mu": mu_from_squared(mu_squared),
            "rho": round_up(exact(mp, mu_squared) / 2),
        }


def _units(m: AnyRun) -> dict[str, Fact]:
    """Return the units of sums, counts and noise scales in the statement."""
    unit = Fact.of(f"sum_unit_{m.sum_unit.value}", bits=m.domain.fraction_bits)
    if m.persons is not None:
        unit = Fact.of("sum_unit_of_persons", unit=unit, shares=m.persons.shares)
    gaussian = m.noise is Noise.GAUSSIAN
    return {
        "sum": unit,
        "count": Fact.of("count_unit", bits=m.number_bits),
        "noise_scale": Fact.of("deviation" if gaussian else "laplace_scale"),
    }


def with_radius(statement: dict[str, Any], radius: FloatArray | None) -> dict[str, Any]:
    """Return the statement with the radius R of the intervals for each feature. If there is no
    radius, the entry is None.

    statement : privacy statement.
    radius : R, float64 (n_features,), in original units, or None.
    """
    shown = (
        None if radius is None else dict(zip(statement["features"], radius.tolist(), strict=True))
    )
    return statement | {"intervals": statement["intervals"] | {"radius": shown}}


def _with_taken(m: AnyRun, statement: dict[str, Any]) -> dict[str, Any]:
    """Return the statement with the list of settings that were taken from the data.

    If settings are taken from the data, neighbouring data sets have different domains or caps. The
    noise does not cover this difference, so the statement then says that the run is not private.
    """
    taken = {"taken_from_the_data": list(m.taken_from_the_data or ())}
    if not m.taken_from_the_data or not statement["private"]:
        return statement | taken
    not_covered = sentence(NOT_COVERED)
    others = [caution for caution in statement["cautions"] if caution != not_covered]
    return (
        statement
        | taken
        | {
            "private": False,
            "protected": [],
            "outside_the_guarantee": [
                *stated([TAKEN], m.unit),
                *statement["outside_the_guarantee"],
            ],
            "cautions": [not_covered, *others],
        }
    )


def plan_statement(plan: Plan, n_included: int | None = None) -> dict[str, Any]:
    """Return the privacy statement of a federated run: the statement of its mechanism, the trust
    mode, and the epsilon against each coalition.

    Each epsilon is the largest over all sets of clients that may be present.

    plan : plan of the run.
    n_included : number of clients in the last sum of a finished run, or None before the run. Only
        the stated scales of the shares of noise depend on this number. Before the run, they are
        stated as if all clients join. No epsilon depends on this number.
    """
    n = plan.n_clients if n_included is None else n_included
    shared, rounds = plan.trust is TrustMode.CLIENT_NOISE, plan.mechanism.all_rounds
    statement = _stated(plan.mechanism, federated=True)
    statement["cautions"] = said(plan_cautions(plan), plan.mechanism.unit)
    if statement["private"]:
        statement["outside_the_guarantee"] = stated(outside_of_plan(plan), plan.mechanism.unit)
    statement["federated"] = {
        "trust": plan.trust.value,
        "masks": plan.masks.value,
        "host": plan.host,
        "simulated": bool(plan.simulated),
        "holds_against": sentence(holds_against(plan)),
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
        "coalitions": [
            {"who": sentence(who), "epsilon": epsilon} for who, epsilon in coalitions(plan)
        ],
        "ring_bits": plan.ring_bits,
        "plan_digest": plan.digest.hex(),
        "run_id": plan.run_id,
    }
    return _with_taken(plan.mechanism, statement)
