"""Facts outside the guarantee: the one list that statements, pages and screens take.

A fact has a code that does not change, for programs, and a sentence for people.
"""

import enum
from typing import Final

import msgspec

from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms.private_run import AnyRun


class Runs(enum.Enum):
    """Runs that a fact concerns; the value names them in a table."""

    ALL = "all"
    OF_RECORDS = "that protect records"
    OF_PERSONS = "that protect persons"
    SIMULATED = "that are simulated"
    FEDERATED = "of several organisations"
    FEDERATED_PERSONS = "of several organisations that protect persons"

    def include(self, m: AnyRun, *, federated: bool, simulated: bool) -> bool:
        """Return whether a run with these settings is one of these runs."""
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


class Fact(msgspec.Struct, frozen=True):
    """Something that the guarantee does not cover.

    The sentence may have placeholders: {a} and {one} for a person, {c} and {share} for
    organisations.
    """

    code: str
    sentence: str
    runs: Runs = Runs.ALL

    def of(self, m: AnyRun) -> "Fact":
        """Return the fact in the words of a run."""
        c = 1 if m.persons is None else m.persons.max_clients
        said = self.sentence.format(
            a=m.unit.a,
            one=m.unit.one,
            c=f"{c} organisation{'s' if c > 1 else ''}",
            share=f"c' / {c}" if c > 1 else "c'",
        )
        return msgspec.structs.replace(self, sentence=said)


EXACT_OUTPUTS: Final = Fact(
    "exact_outputs",
    "labels and distances of records, scores, comparisons with Lloyd, and pictures with records:"
    " they are computed without noise, so keep them where the records are kept",
)
COVERS_RUN: Final = "this run"
THIS_ESTIMATOR: Final = "this estimator"
COVERS_ESTIMATOR: Final = (
    "the guarantee covers this estimator alone, not the steps of a pipeline before it;"
    " fastlloyd.check_private_pipeline names steps that were fitted to the records"
)
UNPROTECTED: Final = Fact("everything", "everything: this run added no noise. NOT PRIVATE")
TAKEN: Final = Fact("taken_from_the_data", "everything, because settings were taken from the data")
FACTS: Final = (
    EXACT_OUTPUTS,
    Fact(
        "owner_counts",
        "counts of clipped and dropped records, and warnings of many, on the screen of the records'"
        " owner, and in logs and notebooks that keep them: they are exact, so tell them to no one",
    ),
    Fact(
        "settings",
        "the settings: features, bounds, number of clusters, caps on records, epsilon, delta,"
        " number of rounds. They are public, and leak what they were taken from",
    ),
    Fact(
        "choices",
        "choices made after a look at the records, or at several results: columns, k, a seed, the"
        " best of ten runs",
    ),
    Fact(
        "layout",
        "the layout of a file, which is found by looking at it: delimiter, heading, names and types"
        " of columns",
    ),
    Fact(
        "earlier_steps",
        "steps before this one that were fitted to the same records: scalers, imputers, encoders,"
        " feature selection",
    ),
    Fact("more_runs", "further runs on the same records: every run adds to what is spent"),
    Fact(
        "refusals",
        "a refusal because of the records: too many of them, a bad cell, a value outside the"
        " bounds. Others can see that a run failed",
    ),
    Fact("timing", "the time, memory and processor load of a computation"),
    Fact(
        "people_in_general",
        "facts about people in general: a result may also tell something of a person who is not in"
        " the data",
    ),
    Fact(
        "machines",
        "machines that others control: their memory holds the records and the noise",
    ),
    Fact(
        "several_records",
        "a person with several records: the more records, the weaker the protection",
        Runs.OF_RECORDS,
    ),
    Fact(
        "wrong_ids",
        "{a} with rows under several ids: each id is protected like another {one}, and no check can"
        " find that out",
        Runs.OF_PERSONS,
    ),
    Fact(
        "dropped_clients",
        "the choice of clients to leave out (`--drop`), if it was made after a look at the records"
        " or at another result",
        Runs.SIMULATED,
    ),
    Fact(
        "more_organisations",
        "{a} at more than {c}: at c' of them, mu is {share} times as large",
        Runs.FEDERATED_PERSONS,
    ),
    Fact(
        "dishonest_parties",
        "parties that break the protocol: they may leave out their noise, invent sums, or withhold"
        " answers",
        Runs.FEDERATED,
    ),
    Fact(
        "attendance",
        "the names of the clients, when each was ready, and which of them took part in which round",
        Runs.FEDERATED,
    ),
    Fact(
        "totals",
        "the totals of an organisation's records: all others learn them if they pool what they see,"
        " and of two each learns the other's",
        Runs.FEDERATED,
    ),
)


def outside(m: AnyRun, *, federated: bool, simulated: bool = False) -> list[Fact]:
    """Return the facts outside the guarantee of a run with noise.

    federated : the run has several organisations. simulated : one process plays them all.
    """
    return [
        fact.of(m)
        for fact in FACTS
        if fact.runs.include(m, federated=federated, simulated=simulated)
    ]


def outside_of_plan(plan: Plan) -> list[Fact]:
    """Return the facts outside the guarantee of a federated run, or of a simulation of one."""
    return outside(plan.mechanism, federated=True, simulated=bool(plan.simulated))


def bullets(facts: list[Fact]) -> str:
    """Return the sentences as a list in Markdown."""
    return "\n".join(f"- {fact.sentence}" for fact in facts)


def table() -> str:
    """Return the whole list as a table in Markdown, with general words in place of placeholders."""
    lines = ["| code | outside the guarantee | runs |", "|---|---|---|"]
    for fact in FACTS:
        said = fact.sentence.format(a="a person", one="person", c="c organisations", share="c' / c")
        lines.append(f"| `{fact.code}` | {said} | {fact.runs.value} |")
    return "\n".join(lines) + "\n"
