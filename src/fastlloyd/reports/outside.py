"""List of everything outside the guarantee. Statements, pages and screens all use this list.

Each entry has a code for programs, which does not change. Its sentence is in the table `outside` of
`sentences.toml`.
"""

import enum
from collections.abc import Iterable
from typing import Final

from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.persons import Unit, max_clients
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.reports.facts import said, sentence


class Runs(enum.Enum):
    """Kind of runs to which an entry applies. The value names the kind in a table."""

    ALL = "all"
    OF_RECORDS = "that protect records"
    OF_PERSONS = "that protect persons"
    SIMULATED = "that are simulated"
    FEDERATED = "of several organisations"
    FEDERATED_PERSONS = "of several organisations that protect persons"

    def include(self, m: AnyRun, *, federated: bool, simulated: bool) -> bool:
        """Return whether a run is of this kind.

        m : settings of the run.
        federated : whether the run has several organisations.
        simulated : whether one process plays all organisations.
        """
        of_persons = m.persons is not None
        federated = federated and not simulated
        return {
            Runs.ALL: True,
            Runs.OF_RECORDS: not of_persons,
            Runs.OF_PERSONS: of_persons,
            Runs.SIMULATED: simulated,
            Runs.FEDERATED: federated,
            Runs.FEDERATED_PERSONS: federated and of_persons,
        }[self]


PREFIX: Final = "outside_"  # before a code, in the name of its fact
EXACT_OUTPUTS: Final = Fact.of("outside_exact_outputs")
UNPROTECTED: Final = Fact.of("outside_everything")
TAKEN: Final = Fact.of("outside_taken_from_the_data")
COVERS_RUN: Final = "this run"
THIS_ESTIMATOR: Final = "this estimator"
COVERS_ESTIMATOR: Final = Fact.of("covers_estimator")
OUTSIDE: Final = {
    "exact_outputs": Runs.ALL,
    "owner_counts": Runs.ALL,
    "settings": Runs.ALL,
    "choices": Runs.ALL,
    "layout": Runs.ALL,
    "earlier_steps": Runs.ALL,
    "more_runs": Runs.ALL,
    "refusals": Runs.ALL,
    "timing": Runs.ALL,
    "people_in_general": Runs.ALL,
    "machines": Runs.ALL,
    "several_records": Runs.OF_RECORDS,
    "wrong_ids": Runs.OF_PERSONS,
    "dropped_clients": Runs.SIMULATED,
    "more_organisations": Runs.FEDERATED_PERSONS,
    "dishonest_parties": Runs.FEDERATED,
    "attendance": Runs.FEDERATED,
    "totals": Runs.FEDERATED,
}


def outside(m: AnyRun, *, federated: bool, simulated: bool = False) -> list[Fact]:
    """Return the facts outside the guarantee of a run with noise.

    m : settings of the run.
    federated : whether the run has several organisations.
    simulated : whether one process plays all organisations.
    """
    c = max_clients(m.persons)
    values = {"c": Fact.of("organisations", n=c), "share": f"c' / {c}" if c > 1 else "c'"}
    return [
        Fact(PREFIX + code, values)
        for code, runs in OUTSIDE.items()
        if runs.include(m, federated=federated, simulated=simulated)
    ]


def outside_of_plan(plan: Plan) -> list[Fact]:
    """Return the facts outside the guarantee of a plan's run."""
    return outside(plan.mechanism, federated=True, simulated=bool(plan.simulated))


def stated(facts: Iterable[Fact], unit: Unit) -> list[dict[str, str]]:
    """Return the code and the sentence of each fact, as plain data (for JSON)."""
    return [
        {"code": fact.name.removeprefix(PREFIX), "sentence": sentence(fact, unit)} for fact in facts
    ]


def bullets(plan: Plan) -> str:
    """Return the facts outside the guarantee of a plan's run, as a Markdown list."""
    return "\n".join(f"- {line}" for line in said(outside_of_plan(plan), plan.mechanism.unit))


def table() -> str:
    """Return all facts outside the guarantee as a Markdown table. General words replace the
    placeholders.
    """
    lines = ["| code | outside the guarantee | runs |", "|---|---|---|"]
    for code, runs in OUTSIDE.items():
        fact = Fact(PREFIX + code, {"c": "c organisations", "share": "c' / c"})
        lines.append(f"| `{code}` | {sentence(fact, Unit.called('person'))} | {runs.value} |")
    return "\n".join(lines) + "\n"
