"""Page of a result with answers to the questions of NIST SP 800-226 (2025).

The questions have headings, from the unit of protection to contact and expiry. Each answer names
its evidence. A question without evidence is printed as unanswered.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Self

from msgspec import structs

from fastlloyd.base.markup import Child, Markup, element
from fastlloyd.base.precision import delta_up, epsilon_up, rounded_up
from fastlloyd.federation.ledger import Account, finite
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.uncertainty import FEW, Status
from fastlloyd.reports.accounts import LedgerTotal, condition
from fastlloyd.reports.page.document import document, warnings
from fastlloyd.reports.page.privacy import listed
from fastlloyd.reports.page.run_view import RunView
from fastlloyd.reports.page.words import breakable, spaced
from fastlloyd.reports.registry import PEOPLE, PeopleFacts, bounds_from, check_private, noise_from
from fastlloyd.reports.run_result import BOUNDS, EXACT, MECHANISM, PLAN, PRIVACY
from fastlloyd.reports.stored_files import StoredFiles
from fastlloyd.reports.stored_result import StoredResult
from fastlloyd.reports.stored_statement import SealedSettings, is_of_bounds, stored_statement

STATEMENT: Final = "statement.html"
AUDITS: Final = {
    "fastlloyd": "docs/results/audit.md",
    "momentlloyd": "docs/results/audit-momentlloyd.md",
}
CAUGHT: Final = {"fastlloyd": "1.16", "momentlloyd": "2.00"}
"""Last column of each audit at epsilon 1: the noise, too small by this factor, that it notices."""
_PROOFS: Final = "docs/proofs"
_LEDGER: Final = "ledger of the owner of the records (fastlloyd ledger show)"


class Sources(NamedTuple):
    """Facts from which the answers follow.

    run : run of the result.
    people : facts that only people know.
    total : total of all runs on the records, or None if no ledger is at hand.
    stored : result of a clustering, or None for a result of bounds.
    """

    run: RunView
    people: PeopleFacts
    total: LedgerTotal | None
    stored: StoredResult | None

    @classmethod
    def of(
        cls,
        files: StoredFiles,
        sealed: SealedSettings,
        people: PeopleFacts,
        total: LedgerTotal | None,
    ) -> Self:
        """Return the sources of a stored result. Its privacy statement is computed anew.

        files : files of the result.
        sealed : settings that are stored with them.
        people : facts that only people know.
        total : total of all runs on the records, or None if no ledger is at hand.

        Raises DataError if the files do not belong together.
        """
        run = RunView.of(files, sealed.mechanism, sealed.plan)
        run = structs.replace(run, privacy=stored_statement(files, sealed))
        return cls(run, people, total, None if is_of_bounds(files) else StoredResult.of(files))

    @property
    def settings(self) -> str:
        """Name of the file of settings."""
        return MECHANISM if self.run.plan is None else PLAN

    @property
    def contact(self) -> tuple[str | None, str]:
        """Person to ask, or None, and the place that names this person."""
        study = self.run.study.get("contact")
        if self.people.contact is None and study is not None:
            return study, f"{PLAN}: contact"
        return self.people.contact, f"{PEOPLE}: contact"

    @property
    def missing(self) -> list[str]:
        """Keys of `registry.toml` that would answer more questions."""
        names = ["choices", "justification", "security", "collection", "expires"]
        lacking = [name for name in names if getattr(self.people, name) is None]
        return [*lacking, "contact"] if self.contact[0] is None else lacking


class Answered(NamedTuple):
    """Answer to a question.

    question : name of the fact that has the question.
    words : facts, or texts that people wrote. An empty list means that there is no answer.
    evidence : source of the answer. Without an answer, the source that could contain it.
    items : facts that the page lists below the words.
    """

    question: str
    words: list[Fact | str]
    evidence: str
    items: Sequence[Fact] = ()


def statement_page(sources: Sources) -> bytes:
    """Return the page with the answers. Raises DataError for a result without a guarantee."""
    run, title = sources.run, sources.run.text("questions_title")
    check_private(run.privacy)
    name = sources.people.name or run.study.get("name")
    content: list[Child] = [
        *warnings(run),
        element("p", run.said("questions_kicker"), class_="kicker"),
        element("h1", breakable(name) if name else title),
        element("ul", element("li", run.words(run.guarantee)), class_="badges"),
        element("p", run.said("questions_lead"), class_="lead"),
        element(
            "nav",
            [element("a", run.said(f"section_{each}"), href=f"#{each}") for each in SECTIONS],
            aria_label=run.text("on_this_page"),
        ),
    ]
    for heading, (answers, codes) in SECTIONS.items():
        content.append(element("h2", run.said(f"section_{heading}"), id=heading))
        content += [_answered(run, each) for each in answers(sources)]
        content += _not_covered(run, codes)
    version = run.privacy["fastlloyd_version"]
    foot = element("footer", element("p", run.said("questions_footer", version=version)))
    return document(name or title, [*content, foot])


def _answered(run: RunView, answer: Answered) -> Markup:
    words = [
        element("bdi", each) if isinstance(each, str) else run.words(each) for each in answer.words
    ]
    where = run.said("evidence" if words else "answer_would_be_in", source=answer.evidence)
    return element(
        "section",
        element("h3", run.said(f"question_{answer.question}")),
        element("p", spaced(words))
        if words
        else element("p", element("b", run.said("unanswered")), class_="warn"),
        listed(map(run.words, answer.items)) if answer.items else None,
        element("p", where, class_="small soft"),
    )


def _not_covered(run: RunView, codes: Sequence[str]) -> list[Child]:
    entries = run.privacy["outside_the_guarantee"]
    found = [each["sentence"] for each in entries if each["code"] in codes]
    return [element("h3", run.said("not_covered_here")), listed(found)] if found else []


def _of_people(question: str, fact: object, key: str) -> Answered:
    return Answered(question, [] if fact is None else [str(fact)], f"{PEOPLE}: {key}")


def _unit(sources: Sources) -> list[Answered]:
    run, said = sources.run, sources.run.privacy
    counts = "contribution_of_record"
    if run.mechanism.persons is not None:
        counts = "counts_once" if run.plan is None else "counts_once_at_each"
    unit = Fact.of("protects_unit", unit=said["unit_of_protection"])
    relation = Fact.of(f"registry_{said['neighboring_relation']}")
    evidence = f"{PRIVACY}: unit_of_protection, neighboring_relation"
    return [
        Answered("unit", [unit, relation], evidence),
        Answered("contribution", [Fact.of(counts), Fact.of("clipped")], sources.settings),
    ]


def _accounting(sources: Sources) -> list[Answered]:
    run, total = sources.run, sources.total
    cost: list[Fact | str] = [
        Fact.of("answer_cost", guarantee=run.guarantee, n=run.privacy["n_rounds"]),
        Fact.of(f"registry_composition_{run.mechanism.noise.value}"),
    ]
    spent, limits = list[Fact | str](), list[Fact | str]()
    if total is not None:
        spent.append(Fact.of("answer_counted", day=total.day))
        if run.plan is not None and not run.plan.simulated:
            spent.append(Fact.of("answer_counted_at_one"))
        for one in total.accounts:
            spent.append(_spent(one))
            limits += _limit(one)
    return [
        Answered("cost", cost, f"{PRIVACY}: epsilon, delta, rho"),
        Answered("releases", spent, _LEDGER),
        Answered("limit", limits, _LEDGER),
    ]


def _spent(one: Account) -> Fact:
    if math.isinf(one.epsilon):
        return Fact.of("answer_total_unknown", asked=str(one.asked))
    epsilon, delta = rounded_up(one.epsilon), delta_up(one.delta)
    return Fact.of("answer_total", epsilon=epsilon, delta=delta, asked=str(one.asked))


def _limit(one: Account) -> list[Fact]:
    limit, asked = finite(one.limit), str(one.asked)
    said = Fact.of("answer_no_limit", asked=asked)
    if limit is not None:
        epsilon, delta = epsilon_up(limit.epsilon), delta_up(limit.delta)
        said = Fact.of("answer_limit", epsilon=epsilon, delta=delta, asked=asked)
    if one.proviso is None:
        return [said]
    return [said, Fact.of("answer_proviso", condition=condition(one.proviso))]


def _trust(sources: Sources) -> list[Answered]:
    run, plan = sources.run, sources.run.plan
    noise = Answered("noise", [noise_from(plan)], sources.settings)
    if plan is None or plan.simulated:
        readers = Fact.of("holds_against", who=Fact.of("against_readers"))
        return [noise, Answered("against", [readers], sources.settings)]
    federated = run.privacy["federated"]
    remaining = [
        Fact.of("nothing_is_protected", who=each["who"])
        if each["epsilon"] is None
        else Fact.of("protected_with", who=each["who"], epsilon=epsilon_up(each["epsilon"]))
        for each in federated["coalitions"]
    ]
    against: list[Fact | str] = [
        Fact.of("holds_against", who=federated["holds_against"]),
        Fact.of("answer_coalitions"),
    ]
    evidence = f"{PRIVACY}: federated.holds_against, federated.coalitions"
    return [noise, Answered("against", against, evidence, remaining)]


def _choices(sources: Sources) -> list[Answered]:
    people, bounds = sources.people, sources.run.privacy.get("bounds")
    words: list[Fact | str] = [bounds_from(sources.run.privacy)]
    if bounds is not None:
        words.append(Fact.of("answer_bounds_share", share=bounds["share_of_budget"]))
    if sources.stored is None:
        words = [Fact.of("answer_outer_range")]
    return [
        Answered("bounds", words, f"{PRIVACY}, {sources.settings}"),
        _of_people("choices", people.choices, "choices"),
        _of_people("epsilon", people.justification, "justification"),
    ]


def _implementation(sources: Sources) -> list[Answered]:
    said, name = sources.run.privacy, sources.run.mechanism.name
    program = Fact.of(
        "registry_mechanisms",
        noise=said["noise"],
        n=said["n_rounds"],
        version=said["fastlloyd_version"],
        digest=said["mechanism_digest"],
    )
    audited, pages = Fact.of("answer_not_audited", name=name), [*AUDITS.values()]
    if name in AUDITS:
        audited, pages = Fact.of("answer_audited", name=name, factor=CAUGHT[name]), [AUDITS[name]]
    return [
        Answered("program", [program], f"{PRIVACY}, {_PROOFS}"),
        Answered("audited", [audited, Fact.of("answer_reviewed")], ", ".join(pages)),
    ]


def _side_channels(_: Sources) -> list[Answered]:
    words: list[Fact | str] = [Fact.of("answer_rounding"), Fact.of("answer_channels")]
    return [Answered("channels", words, f"{_PROOFS}/rounding.md, docs/threat-model.md")]


def _utility(sources: Sources) -> list[Answered]:
    stored = sources.stored
    if stored is None:
        missing = sources.run.privacy["not_found"]
        found = Fact.of("not_found", features=missing) if missing else Fact.of("answer_all_found")
        tails = Fact.of("answer_tails")
        return [Answered("error", [found], BOUNDS), Answered("hurt", [tails], sources.settings)]
    m, error = stored.mechanism, stored.count_error
    doubtful = sum(status in (Status.FEW.value, Status.STAYED.value) for status in stored.status)
    small = Fact.of(
        "answer_small", least=math.ceil(FEW * error), n=doubtful, n_clusters=m.n_clusters
    )
    return [
        Answered("error", [Fact.of("registry_utility", error=error)], EXACT),
        Answered("hurt", [small, Fact.of("answer_extremes")], EXACT),
    ]


def _security(sources: Sources) -> list[Answered]:
    return [_of_people("security", sources.people.security, "security")]


def _collection(sources: Sources) -> list[Answered]:
    return [_of_people("collection", sources.people.collection, "collection")]


def _contact(sources: Sources) -> list[Answered]:
    contact, where = sources.contact
    return [
        Answered("contact", [] if contact is None else [contact], where),
        _of_people("expires", sources.people.expires, "expires"),
    ]


# by heading: the answers, and the codes of what the guarantee does not cover there
SECTIONS: Final[dict[str, tuple[Callable[[Sources], list[Answered]], tuple[str, ...]]]] = {
    "unit": (
        _unit,
        ("several_records", "wrong_ids", "more_organisations", "people_in_general"),
    ),
    "accounting": (_accounting, ("more_runs",)),
    "trust": (_trust, ("machines", "dishonest_parties", "totals")),
    "choices": (_choices, ("settings", "choices", "earlier_steps", "layout", "dropped_clients")),
    "implementation": (_implementation, ()),
    "channels": (_side_channels, ("refusals", "timing", "attendance")),
    "utility": (_utility, ()),
    "security": (_security, ("exact_outputs", "owner_counts")),
    "collection": (_collection, ()),
    "contact": (_contact, ()),
}
