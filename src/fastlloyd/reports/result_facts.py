"""Facts about the findings of a run. Screens and pages show them in the words of `facts.py`."""

import math

import numpy as np

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.names import listing
from fastlloyd.base.precision import delta_up, epsilon_up, measured
from fastlloyd.clustering.domain import Domain
from fastlloyd.federation.plan.plan import TrustMode
from fastlloyd.mechanisms import uncertainty
from fastlloyd.mechanisms.facts import Fact, Facts
from fastlloyd.mechanisms.uncertainty import LossEstimate, Verdict
from fastlloyd.records.recipe import columns_of
from fastlloyd.records.recipe.scales import Scale
from fastlloyd.reports.bounds_result import BoundsResult
from fastlloyd.reports.coalitions import holds_against
from fastlloyd.reports.facts import cut
from fastlloyd.reports.plan_facts import simulated, whole_person
from fastlloyd.reports.result import Result
from fastlloyd.reports.run_result import RunResult
from fastlloyd.reports.telling import suggestions
from fastlloyd.reports.units import size_up, units_of

SHOWN = 12  # features, or figures, in one sentence
FINEST = 0.01  # of the radius of a cluster: a smaller error is called less


def guarantee(result: RunResult) -> Facts:
    """Return facts about epsilon and delta, and about what they protect."""
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
    """Return the fact about the parties against which the guarantee of a federated run holds.

    The list is empty for a run of one organisation.
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
    """Return facts about the estimate of the loss. They contain no exact number of records."""
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
    """Return facts about the reliability of the centroids, computed from noisy answers only.

    One of the facts is the typical error of a centroid, compared with the radius of a cluster.
    """
    m, K = result.mechanism, len(result.updated)
    facts: list[Fact | Facts] = [*doubted(result), *beyond_bounds(result)]
    if stayed := int((~result.updated).sum()):
        facts.append(Fact.of("stayed", n=stayed, n_clusters=K))
    facts += uncertainty.cautions(result.accuracy.status, result.count_error)
    facts += columns(m.domain)
    facts += intervals(result)
    typical = uncertainty.typical_error(m, result.accuracy, result.noisy_counts, result.count_error)
    if math.isfinite(typical):
        radius = m.planned_radius / 2**m.domain.fraction_bits
        name = "typical_error" if typical >= FINEST else "small_typical_error"
        facts.append(Fact.of(name, error=typical, radius=radius))
    verdict = uncertainty.verdict(m, result.accuracy, result.noisy_counts, result.count_error)
    if verdict is Verdict.MOSTLY_NOISE:
        facts.append(Fact.of("noise_dominates"))
    facts.append(Fact.of("another_run"))
    return [*facts, *suggestions(result.split)]


def doubted(result: RunResult) -> list[Fact]:
    """Return a list with a warning about the rounds whose sums cannot come from records. The list
    is empty if there are no such rounds.
    """
    return [Fact.of("warning", caution=doubt) for doubt in result.doubts]


def of_bounds(result: BoundsResult) -> list[Fact | Facts]:
    """Return facts about features whose bounds were not found, and about sums that
    cannot be right.
    """
    hidden = result.not_found
    found = [Fact.of("not_found", features=listing(hidden))] if hidden else []
    return [*doubted(result), *found]


def intervals(result: Result) -> list[Facts]:
    """Return facts about the intervals of settled clusters: the values that an interval covers, and
    the distance by which the mean may be outside it.
    """
    m, accuracy = result.mechanism, result.accuracy
    if not uncertainty.settled(accuracy.status).any():
        return []
    facts = list(m.promise)
    if accuracy.radius is not None:
        facts.append(radius(m.domain, accuracy.radius))
    if accuracy.beyond is not None:
        facts += means_beyond(m.domain, accuracy.beyond)
    elif accuracy.radius is not None:
        facts.append(Fact.of("means_cannot_be_told"))
    return [tuple(facts)]


def columns(domain: Domain) -> list[Facts]:
    """Return facts about the columns of a recipe whose centroids need an explanation, such as
    logarithms.
    """
    by_scale = {
        scale: [column.name for column in domain.columns if column.scale is scale]
        for scale in Scale
    }
    categories = [
        column.name
        for feature in domain.recipe or ()
        if feature.categories is not None
        for column in columns_of((feature,))
    ]
    found = []
    if names := by_scale[Scale.LOG]:
        found.append(Fact.of("typical_values", features=listing(names)))
    if categories:
        found.append(Fact.of("centres_of_categories", features=listing(categories)))
    return [tuple(found)] if found else []


def radius(domain: Domain, radius: FloatArray) -> Fact:
    """Return the fact about R, the distance from a centroid within which records count for the
    intervals.

    domain : domain of the features.
    radius : R in the units in which the features are clustered, float64 (n_features,).
    """
    each = zip(domain.features, units_of(domain), radius.tolist(), strict=True)
    named = (
        Fact.of(f"radius_{u.size_prefix}in", radius=u.size(R), name=name) for name, u, R in each
    )
    return Fact.of("radius_is", radius=cut(named, "more_radii", SHOWN, ", "))


def means_beyond(domain: Domain, beyond: FloatArray) -> list[Fact]:
    """Return a list with the fact about means of records that may be outside the intervals. The
    list is empty if no mean is.

    domain : domain of the features.
    beyond : `uncertainty.Accuracy.beyond`, float64 (n_clusters, n_features).
    """
    units = units_of(domain)
    figures = [
        Fact.of(
            f"mean_{units[feature].size_prefix}{'higher' if size > 0 else 'lower'}",
            cluster=cluster,
            name=domain.features[feature],
            size=size_up(units[feature], size),
        )
        for cluster, feature in np.argwhere(np.isfinite(beyond)).tolist()
        if (size := float(beyond[cluster, feature]))
    ]
    listed = cut(figures, "more_figures", SHOWN, "; ")
    return [Fact.of("means_beyond", figures=listed)] if figures else []


def beyond_bounds(result: Result) -> list[Fact]:
    """Return the fact about the number of centroids that noise moved outside the bounds.

    The list is empty if no centroid is outside, or if the algorithm moves centroids back. The
    number follows from noisy centroids.
    """
    m = result.mechanism
    is_outside = (result.centroids < m.domain.lower) | (result.centroids > m.domain.upper)
    n = int(is_outside.any(axis=1).sum())
    if n == 0 or not m.may_leave_bounds:
        return []
    return [Fact.of("outside_the_bounds", n=n, n_clusters=m.n_clusters, name=m.name)]
