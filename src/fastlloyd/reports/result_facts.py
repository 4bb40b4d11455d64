"""Facts about what a run found, which screens and pages show in the words of `facts.py`."""

import math

import numpy as np

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.names import listing
from fastlloyd.base.precision import delta_up, epsilon_up, measured, two_digits_up
from fastlloyd.federation.plan.plan import TrustMode
from fastlloyd.mechanisms import uncertainty
from fastlloyd.mechanisms.facts import Fact, Facts
from fastlloyd.mechanisms.uncertainty import LossEstimate, Verdict
from fastlloyd.reports.bounds_result import BoundsResult
from fastlloyd.reports.coalitions import holds_against
from fastlloyd.reports.facts import cut
from fastlloyd.reports.plan_facts import simulated, whole_person
from fastlloyd.reports.result import Result
from fastlloyd.reports.run_result import RunResult

SHOWN = 12  # features, or figures, in one sentence
FINEST = 0.01  # of the radius of a cluster: a smaller error is called less


def guarantee(result: RunResult) -> Facts:
    """Return epsilon, delta and what they hide."""
    m, mood = result.mechanism, "would_hide" if result.leaks else "hides"
    of = "rows" if m.persons else "record"
    person = []
    if m.persons is not None:
        unit = whole_person(m.persons, federated=result.plan is not None)
        person = [Fact.of("person", person=unit)]
    return (
        Fact.of(
            "guarantee_if_public" if result.leaks else "guarantee",
            epsilon=epsilon_up(result.epsilon),
            delta=delta_up(m.delta),
            rounds=result.rounds_covered,
        ),
        Fact.of(
            f"{mood}_{of}_{m.neighboring_relation.value}", relation=m.neighboring_relation.value
        ),
        *person,
    )


def trust(result: RunResult) -> list[Fact]:
    """Return against which parties the guarantee of a federated run holds, nothing for a run of one
    holder.
    """
    plan = result.plan
    if plan is None:
        return []
    if plan.simulated:
        return [simulated(plan)]
    if plan.trust is TrustMode.SERVER_NOISE:
        return [Fact.of("server_noise_of_result")]
    n = len(result.included[-1])
    h = plan.quorum(n).shares
    return [Fact.of("shares_of_result", shares=h, n=n, against=holds_against(plan))]


def loss(result: Result, estimate: LossEstimate) -> Facts:
    """Return the estimate of the loss and its meaning; no exact number of records is involved."""
    m, n = result.mechanism, result.mechanism.n_expected
    cap = m.loss.cap * m.loss.unit(m.domain.fraction_bits) if m.loss else math.nan
    value = Fact.of(
        "loss_found" if result.has_noise else "loss_found_without_noise",
        loss=measured(estimate.value, estimate.standard_error),
        each=measured(estimate.value / n, estimate.standard_error / n),
        n=n,
    )
    found = [value, Fact.of("loss_found_cap", distance=math.sqrt(cap), cap=cap)]
    if estimate.value < 0:
        found.append(Fact.of("loss_is_negative"))
    if result.plan is not None and len(result.included[-1]) < result.plan.n_clients:
        n_included = len(result.included[-1])
        found.append(Fact.of("loss_of_some", n=n_included, of=result.plan.n_clients))
    return tuple(found)


def reliability(result: Result) -> list[Fact | Facts]:
    """Return how far to trust the centroids, and their errors compared with the radius of a
    cluster; from noisy answers only.
    """
    m, K = result.mechanism, len(result.updated)
    facts: list[Fact | Facts] = [*doubted(result), *beyond_bounds(result)]
    if stayed := int((~result.updated).sum()):
        facts.append(Fact.of("stayed", n=stayed, n_clusters=K))
    facts += uncertainty.cautions(result.accuracy.status, result.count_error)
    facts += intervals(result)
    typical = uncertainty.typical_error(m, result.accuracy, result.noisy_counts, result.count_error)
    if math.isfinite(typical):
        radius = m.planned_radius / 2**m.domain.fraction_bits
        name = "typical_error" if typical >= FINEST else "small_typical_error"
        facts.append(Fact.of(name, error=typical, radius=radius))
    if Verdict.on(typical) is Verdict.MOSTLY_NOISE:
        facts.append(Fact.of("noise_dominates"))
    return [*facts, *split(result)]


def doubted(result: RunResult) -> list[Fact]:
    """Return a warning of the rounds whose sums cannot be right, if there are any."""
    return [Fact.of("warning", caution=doubt) for doubt in result.doubts]


def of_bounds(result: BoundsResult) -> list[Fact | Facts]:
    """Return which bounds were not found, and whether the others can be trusted."""
    hidden = result.not_found
    found = [Fact.of("not_found", features=listing(hidden))] if hidden else []
    return [*doubted(result), *found]


def intervals(result: Result) -> list[Facts]:
    """Return what the intervals of settled clusters cover, and how far out the means may lie."""
    m, accuracy = result.mechanism, result.accuracy
    if not uncertainty.settled(accuracy.status).any():
        return []
    facts = list(m.promise)
    if accuracy.radius is not None:
        facts.append(radius(m.domain.features, accuracy.radius))
    if accuracy.beyond is not None:
        facts += means_beyond(m.domain.features, accuracy.beyond)
    elif accuracy.radius is not None:
        facts.append(Fact.of("means_cannot_be_told"))
    return [tuple(facts)]


def radius(features: tuple[str, ...], radius: FloatArray) -> Fact:
    """Return R, float64 (n_features,), in the units of each feature."""
    each = zip(features, radius.tolist(), strict=True)
    named = (Fact.of("radius_in", radius=R, name=name) for name, R in each)
    return Fact.of("radius_is", radius=cut(named, "more_radii", SHOWN, ", "))


def means_beyond(features: tuple[str, ...], beyond: FloatArray) -> list[Fact]:
    """Return the figures of `uncertainty.Accuracy.beyond`, or nothing if there are none."""
    figures = [
        Fact.of(
            "mean_higher" if beyond[cluster, feature] > 0 else "mean_lower",
            cluster=cluster,
            name=features[feature],
            size=two_digits_up(size),
        )
        for cluster, feature in np.argwhere(np.isfinite(beyond)).tolist()
        if (size := abs(float(beyond[cluster, feature])))
    ]
    listed = cut(figures, "more_figures", SHOWN, "; ")
    return [Fact.of("means_beyond", figures=listed)] if figures else []


def split(result: Result) -> list[Fact]:
    """Return the groups that the noisy votes show, or nothing if they cannot tell."""
    found = result.split
    if found is None:
        return []
    if found.clearest is None:
        return [Fact.of("no_clear_groups")]
    if found.finer is None:
        return [Fact.of("clearest_split", n=found.clearest)]
    return [Fact.of("clearest_and_finer_split", n=found.clearest, finer=found.finer)]


def beyond_bounds(result: Result) -> list[Fact]:
    """Return how many centroids noise has put outside the bounds, if the algorithm leaves them
    there. The number is noisy, too.
    """
    m = result.mechanism
    is_outside = (result.centroids < m.domain.lower) | (result.centroids > m.domain.upper)
    n = int(is_outside.any(axis=1).sum())
    if n == 0 or not m.may_leave_bounds:
        return []
    return [Fact.of("outside_the_bounds", n=n, n_clusters=m.n_clusters, name=m.name)]
