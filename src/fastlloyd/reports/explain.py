"""Explain a plan in plain words: its protection, the epsilon against each coalition, and the choice
of its settings.
"""

from collections.abc import Iterable

from fastlloyd.base.sealed_toml import in_groups
from fastlloyd.errors import PlanError
from fastlloyd.federation.plan.plan import Plan, noise_deviation_of_run
from fastlloyd.jobs.forecast import Forecast
from fastlloyd.mechanisms.facts import Fact, Facts
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.persons import Unit
from fastlloyd.records.recipe.feature import Feature
from fastlloyd.reports.bars import bars_of
from fastlloyd.reports.certainty import certainties
from fastlloyd.reports.facts import SHOWN, said, sentence, sentences
from fastlloyd.reports.outside import bullets
from fastlloyd.reports.plan_facts import (
    authority,
    cap,
    found,
    guarantee,
    lacking,
    left,
    noise_factor,
    parties,
    persons,
    plan_cautions,
    protection,
    ranges,
    study,
    totals,
    transport,
    waiting,
)
from fastlloyd.reports.recipe_facts import of_recipe


def explain(plan: Plan) -> str:
    """Return the explanation of a plan as Markdown, for the people who decide whether
    to take part.
    """
    m, unit = plan.mechanism, plan.mechanism.unit
    planner, *planned = m.planning(noise_factor(plan))
    title = found(
        "title",
        m,
        n_clients=plan.n_clients,
        clients=", ".join(plan.names),
        n_features=m.n_features,
        features=", ".join(map(repr, m.domain.features)),
    )
    sections = [
        f"Plan {plan.digest.hex()}\n{sentence(title)}",
        "\n".join(said(study(plan))),
        sentences((found("ranges", m, ranges=ranges(m, SHOWN)), cap(m)), unit),
        *([recipe_table(m.domain.recipe, unit)] if m.domain.recipe else []),
        "\n".join(protected(plan)),
        *tables(plan),
        sentences(persons(plan), unit),
        table([planner], [*planned, *expected(plan)], unit),
        sentences(transport(plan)),
        _parties(plan),
        f"{sentence(Fact.of('outside'))}\n{bullets(plan)}",
    ]
    return "\n\n".join(filter(None, sections))


def expected(plan: Plan) -> list[Fact]:
    """Return a list with the fact about the expected verdict and error bars. The list is empty if
    the run is not a clustering, or if its error is not known.
    """
    m = plan.mechanism
    if not isinstance(m, Mechanism):
        return []
    noise = noise_deviation_of_run(plan, plan.n_clients)
    try:
        forecast = Forecast.of(m, noise, noise_factor(plan))
    except PlanError:  # more features than the table has
        return []
    bars = {bar.feature: bar.text for bar in bars_of(m.domain, forecast.bar)}
    return [Fact.of("forecast", size=forecast.size, verdict=forecast.verdict.value, bars=bars)]


def protected(plan: Plan) -> list[str]:
    """Return paragraphs on the protection that a plan gives, with all cautions."""
    unit = plan.mechanism.unit
    first, *others = said(protection(plan), unit)
    return [
        sentence(guarantee(plan.mechanism), unit),
        *(f"WARNING: {caution}." for caution in said(plan_cautions(plan), unit)),
        first,
        *(f"Note: {total}." for total in said(totals(plan), unit) if not plan.simulated),
        *others,
    ]


def tables(plan: Plan) -> list[str]:
    """Return two tables as Markdown: the epsilon against each coalition, and an observer's
    certainty after the run.

    Each has a heading, and lines that begin with a dash.
    """
    unit, (question, rows, after) = plan.mechanism.unit, certainties(plan.mechanism)
    certain = "\n".join([table([question], rows, unit), sentences(tuple(after), unit)])
    return [table(*left(plan), unit), certain]


def recipe_table(recipe: Iterable[Feature], unit: Unit) -> str:
    """Return lines, each with a leading dash, that say what a recipe does with each feature."""
    return table([Fact.of("recipe_of_plan")], of_recipe(recipe), unit)


def table(question: Iterable[Fact | Facts], rows: Iterable[Fact | Facts], unit: Unit) -> str:
    """Return a heading, and lines that begin with a dash.

    question : facts of the heading.
    rows : facts of the lines.
    unit : unit of protection.
    """
    return "\n".join([*said(question, unit), *(f"- {row}" for row in said(rows, unit))])


def _parties(plan: Plan) -> str:
    unit = plan.mechanism.unit
    rows = [
        Fact.of("certificate", who=who, fingerprint=in_groups(fingerprint), ends=ends)
        if fingerprint
        else Fact.of("no_certificate", who=who)
        for who, fingerprint, ends in parties(plan)
    ]
    after = said([*authority(plan), waiting(plan), *lacking(plan)], unit)
    return "\n".join([table([Fact.of("compare")], rows, unit), *after])
