"""Facts about runs and plans. Screens, pages and statements show them in the words of
`facts.py`.
"""

import base64
import math
from datetime import UTC, datetime
from fractions import Fraction
from typing import NamedTuple

from fastlloyd.base.precision import delta_up, epsilon_up, rounded_up
from fastlloyd.base.sealed_toml import in_groups
from fastlloyd.federation.plan.plan import Client, Plan, Server
from fastlloyd.federation.plan.quorum import Masks, TrustMode
from fastlloyd.federation.secagg.ring import Ring
from fastlloyd.federation.secagg.sealing import TAG_BYTES
from fastlloyd.mechanisms.facts import Fact, Facts
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.reports.coalitions import (
    coalitions,
    holds_against,
    person_epsilon,
    price_of_two_results,
)
from fastlloyd.reports.facts import cut, said
from fastlloyd.reports.units import units_of

LARGE_EPSILON = 10.0
ENOUGH_FOR_TWO = 5  # clients, of whom two may pool what they see for a little more noise
NOT_COVERED = Fact.of("not_covered")


def whole_person(persons: Persons, *, federated: bool = True) -> Fact:
    """Return the fact that says which rows belong to one person, and how often a person counts.

    persons : protected persons.
    federated : whether the run has several organisations.
    """
    return (
        Fact.of("one_person_at_each", n=persons.max_clients) if federated else Fact.of("one_person")
    )


def has_loss(m: AnyRun) -> bool:
    """Return whether the run estimates the loss."""
    return m.n_rounds > len(m.rounds)


def protected(m: AnyRun, *, federated: bool) -> list[Fact]:
    """Return facts about the outputs that the guarantee covers, and about the data sets that it
    compares.
    """
    unit = Fact.of("protected_record")
    if m.persons is not None:
        unit = Fact.of("protected_person", person=whole_person(m.persons, federated=federated))
    loss = [Fact.of("protected_loss")] if has_loss(m) else []
    return [Fact.of(f"protected_{m.finds.value}"), unit, *loss]


# Cautions


def cautions(m: AnyRun, epsilon: float | None = None) -> list[Fact]:
    """Return cautions about a guarantee that is true but weak: a large epsilon, or a large delta.

    m : settings of the run.
    epsilon : epsilon that was spent, or None for the epsilon of the settings.
    """
    found, epsilon = [], m.epsilon if epsilon is None else epsilon
    if LARGE_EPSILON < epsilon < math.inf:
        found.append(Fact.of("large_epsilon", epsilon=epsilon))
    if m.delta * 100 * m.n_records > 1 + 1e-9:
        exposed = float(f"{m.delta * m.n_records:.2g}")
        found.append(Fact.of("large_delta", delta=m.delta, exposed=exposed))
    return found


def plan_cautions(plan: Plan) -> list[Fact | Facts]:
    """Return cautions about a plan: cautions about its mechanism, and about few clients in a sum.

    A plan of a simulation has only the first kind. `plan new` no longer makes plans in which
    clients can be led to two different results, but such plans can still be read.
    """
    m, n, D = plan.mechanism, plan.n_clients, plan.max_dropouts
    found: list[Fact | Facts] = [*([NOT_COVERED] if m.taken_from_the_data else []), *cautions(m)]
    if plan.simulated:
        return found
    if n == 2:
        found.append(Fact.of(f"two_clients_{m.finds.value}", error=profile_deviation(plan)))
    if plan.min_present == 2 < n:
        at_most = max(min(n - 3, plan.most_dropouts), 0)
        found.append(Fact.of("sum_of_two", dropouts=D, n=n, at_most=at_most))
    if plan.is_divisible:
        groups = Fact.of("two_results", dropouts=D, n=n, colluding=plan.max_colluding)
        remedy = Fact.of("make_a_new_plan", at_most=max(plan.most_dropouts, 0))
        found.append((groups, price_of_two_results(plan), remedy))
    if plan.host is not None and plan.max_colluding == 1 and n >= ENOUGH_FOR_TWO:
        found.append(Fact.of("host_is_the_coalition", host=plan.host))
    return found


def profile_deviation(plan: Plan) -> float:
    """Return the standard error with which all other organisations together can compute one
    organisation's number of records, or of persons.

    The others subtract their own records and noise from the noisy sums, so only one share of noise
    is left, or the server's noise. All answers that count every record are combined, each weighted
    by its noise. If records beyond a radius are left out, only the records within it are counted.
    """
    m = plan.mechanism
    weights = Fraction(0)
    for round in m.rounds:
        shared = plan.trust is TrustMode.CLIENT_NOISE
        scales = plan.share_scales(round, plan.n_clients) if shared else plan.total_scales(round)
        weights += round.information_on_number(m, scales)
    return m.noise.spread / math.sqrt(weights) / float(2**m.number_bits)


def totals(plan: Plan) -> list[Fact]:
    """Return the fact about the totals of one organisation that all others learn if they pool what
    they see.

    The list is empty for two organisations, because `plan_cautions` warns about them.
    """
    if plan.n_clients == 2:
        return []
    return [Fact.of(f"totals_{plan.mechanism.finds.value}", error=profile_deviation(plan))]


def expiring(plan: Plan, now: datetime | None = None) -> list[Fact]:
    """Return a fact for each certificate that may end before the end of a run that begins now.

    plan : plan with the certificates.
    now : current time, or None for the clock of the system.
    """
    longest = (plan.mechanism.n_rounds + 3) * plan.timeouts.round
    return [
        Fact.of("expiring", name=one.name, ends=f"{one.ends:%Y-%m-%d}", longest=longest)
        for one in plan.expiring(datetime.now(UTC) if now is None else now)
    ]


def cautions_at_start(plan: Plan) -> list[str]:
    """Return sentences about a networked run that begins now: weak settings, certificates that end
    too soon, and a name of the server that clients send unencrypted.
    """
    from fastlloyd.federation.identity import x509

    found = [*plan_cautions(plan), *expiring(plan)]
    hosts = x509.hosts(x509.load(base64.b64decode(plan.server.certificate)))
    if x509.SERVER_HOST not in hosts:
        found.append(Fact.of("unencrypted_name", host=hosts[0]))
    return said(found, plan.mechanism.unit)


# The run


def study(plan: Plan) -> list[Fact]:
    """Return facts about the purpose and the responsible people of the study, or an empty list if
    the plan names none.
    """
    texts = {} if plan.study is None else plan.study.texts
    return [Fact.of(f"study_{what}", text=text) for what, text in texts.items()]


def found(name: str, m: AnyRun, **values: object) -> Fact:
    """Return the fact `name` for a run that finds clusters or a run that finds bounds.

    m : settings of the run.
    values : further values of the fact.
    """
    if isinstance(m, Mechanism):
        values["n_clusters"] = m.n_clusters
    return Fact.of(f"{name}_{m.finds.value}", name=m.name, **values)


def ranges(m: AnyRun, most: int | None = None) -> str:
    """Return a sentence part that lists every feature with its public bounds or range.

    m : settings of the run.
    most : largest number of features to list, or None to list all.
    """
    d = m.domain
    each = zip(d.features, units_of(d), d.lower, d.upper, strict=True)
    named = (
        Fact.of("range", name=name, low=u.text(low), high=u.text(high))
        for name, u, low, high in each
    )
    return cut(named, "more_ranges", most, "; ")


def cap(m: AnyRun) -> Fact:
    """Return the fact about the largest number of records, or persons, of all clients together."""
    return Fact.of("cap" if m.persons is None else "cap_of_persons", n_records=m.n_records)


def noise_factor(plan: Plan, n_included: int | None = None) -> float:
    """Return the ratio of the noise in a sum of n clients to the noise that the guarantee needs.

    The noise is measured by its standard deviation. The ratio is sqrt(n / h), if the guarantee
    counts on h shares of noise.

    plan : plan of the run.
    n_included : number n of clients in the sum, or None for all clients of the plan.
    """
    if plan.trust is TrustMode.SERVER_NOISE:
        return 1.0
    n = plan.n_clients if n_included is None else n_included
    return math.sqrt(n / plan.quorum(n).shares)


# The guarantee


def guarantee(m: AnyRun) -> Fact:
    """Return the fact about the protected unit, with epsilon, delta and neighbouring relation."""
    return Fact.of(
        "protection_and_loss" if has_loss(m) else "protection",
        epsilon=epsilon_up(m.epsilon),
        delta=delta_up(m.delta),
        relation=m.neighboring_relation.value.replace("_", " "),
        n_rounds=len(m.rounds),
    )


def simulated(plan: Plan) -> Fact:
    """Return the fact about the parties against which the guarantee of a simulation holds."""
    return Fact.of("simulation", against=holds_against(plan))


def trust(plan: Plan) -> Facts:
    """Return facts about the parties against which the noise protects, and about the additional
    noise that this protection needs.
    """
    if plan.trust is TrustMode.SERVER_NOISE:
        met = [] if plan.masks is Masks.GROUP else [Fact.of("server_with_a_client")]
        return (Fact.of("server_noise"), *met, Fact.of("keep_from_server"))
    price = Fact.of("price", factor=noise_factor(plan))
    if plan.masks is Masks.GROUP:
        shares = Fact.of(
            "group_masks",
            shares=plan.n_shares,
            n=plan.max_colluding,
            dropouts=plan.max_dropouts,
        )
        return shares, price
    n, epsilon = plan.min_present, epsilon_up(plan.mechanism.epsilon)
    shares = Fact.of("pairwise_masks", against=holds_against(plan), epsilon=epsilon)
    if not plan.max_dropouts:
        return shares, price
    return shares, price, Fact.of("price_of_dropouts", n=n, factor=noise_factor(plan, n))


def protection(plan: Plan) -> list[Facts]:
    """Return paragraphs of facts: the masking, the parties against which the guarantee holds, and
    attendance.

    Readers should see `plan_cautions` first.
    """
    if plan.simulated:
        return [(simulated(plan),)]
    return [(Fact.of("no_party_sees"),), trust(plan), (attendance(plan),)]


def seen_of_a_client(plan: Plan) -> list[Fact]:
    """Return facts about what leaves a client in a run over a network, and who sees it."""
    return [
        *(Fact.of(name) for name in ("what_leaves", "server_sees_you", "clients_see_you")),
        *totals(plan),
    ]


def attendance(plan: Plan) -> Fact:
    """Return the fact about the number of clients that may be missing, and in which phase."""
    if plan.masks is Masks.GROUP:
        return Fact.of("may_miss_a_round", n=plan.max_dropouts)
    if plan.max_dropouts == 0:
        return Fact.of("all_must_join", n=plan.n_clients)
    return Fact.of("may_miss_the_keys", n=plan.max_dropouts)


def left(plan: Plan) -> tuple[list[Fact], list[Fact]]:
    """Return a heading, and for each coalition (group of parties that pool what they see) a fact:
    the epsilon that the run guarantees against this coalition. Both lists are empty for a
    simulation.
    """
    rows = [
        Fact.of("nothing_is_protected", who=who)
        if epsilon is None
        else Fact.of("protected_with", who=who, epsilon=rounded_up(epsilon))
        for who, epsilon in coalitions(plan)
    ]
    question = [Fact.of("against_those_who_pool", delta=delta_up(plan.mechanism.delta))]
    return (question, rows) if rows else ([], [])


def persons(plan: Plan) -> Facts:
    """Return facts about the protection of a person with several records, or with rows at several
    organisations.
    """
    of, delta = plan.mechanism.persons, delta_up(plan.mechanism.delta)
    if of is None:
        several = tuple(
            Fact.of("with_records", epsilon=rounded_up(person_epsilon(plan, n)), n=n)
            for n in (2, 5, 10)
        )
        return (Fact.of("records_of_a_person", delta=delta, several=several),)
    c, M = of.max_clients, plan.n_clients
    wrong = Fact.of("wrong_ids", person=whole_person(of))
    more = sorted({n for n in (c + 1, 2 * c, M) if c < n <= M})
    several = tuple(
        Fact.of("at_organisations", epsilon=rounded_up(person_epsilon(plan, n)), n=n) for n in more
    )
    if not more:
        return (wrong,)
    return wrong, Fact.of("at_more_organisations", delta=delta, several=several)


# Transport and parties


def liveness(plan: Plan) -> list[Fact]:
    """Return a list with the fact about a run that loses a client. The list is empty if the run can
    go on without the client.
    """
    if plan.masks is Masks.GROUP:
        return []
    n = plan.n_clients
    percent = round(100 * 0.99**n)
    return [Fact.of("liveness", round=plan.timeouts.round, n=n, percent=percent)]


def waiting(plan: Plan) -> Fact:
    """Return the fact about the time that the parties wait for each other in each phase."""
    t, kind = plan.timeouts, "group" if plan.masks is Masks.GROUP else "pairs"
    return Fact.of(
        f"waits_for_{kind}",
        joining=t.joining, dealing=t.dealing, round=t.round, confirming=t.confirming,
    )  # fmt: skip


def transport(plan: Plan) -> Facts:
    """Return facts about the number of bytes that a client sends and receives in each round."""
    m, itemsize = plan.mechanism, Ring.of(plan.ring_bits).itemsize
    payloads = [plan.n_words(round) * itemsize for round in m.rounds]
    least, most = min(payloads), max(payloads)
    bytes_ = Fact.of("bytes_equal", most=most)
    if least < most:
        bytes_ = Fact.of("bytes", least=least, most=most, all=sum(payloads), n_rounds=len(payloads))
    states = [n + TAG_BYTES for number in range(m.n_rounds) if (n := m.travelling_bytes(number))]
    between = [Fact.of("bytes_between", most=max(states))] if states else []
    loss = [Fact.of("bytes_of_loss")] if has_loss(m) else []
    return (bytes_, *between, Fact.of("bytes_more"), *loss)


class PartyOfPlan(NamedTuple):
    """Server or client of a plan.

    role : fact about the party.
    fingerprint : SHA-256 of its certificate, or "" without a certificate.
    ends : last day of the certificate, or "" without a certificate.
    """

    role: Fact
    fingerprint: str
    ends: str


def client_cap(client: Client) -> Fact:
    """Return the fact about a client's cap on records. If the plan states a position of the
    client's store, the fact also has the least number of events in the store.
    """
    if client.store is None:
        return Fact.of("client_cap", name=client.name, cap=client.max_records)
    return Fact.of(
        "client_cap_and_store",
        name=client.name,
        cap=client.max_records,
        events=client.store.length,
    )


def parties(plan: Plan) -> list[PartyOfPlan]:
    """Return the parties of the plan: the server first, then each client."""
    ends = {certificate.name: str(certificate.expires) for certificate in plan.certificates()}
    address = plan.server.address or Fact.of("no_address")
    server = Fact.of("server_at", name=plan.server.name, address=address)
    if plan.host:
        server = Fact("server_on_machine", server.values | {"host": plan.host})
    roles: list[tuple[Client | Server, Fact]] = [
        (plan.server, server),
        *((client, client_cap(client)) for client in plan.clients),
    ]
    return [
        PartyOfPlan(role, party.fingerprint if party.certificate else "", ends.get(party.name, ""))
        for party, role in roles
    ]


def authority(plan: Plan) -> list[Fact]:
    """Return a list with the fact about the authority that issued all certificates. The list is
    empty if the plan names none.
    """
    issuer = plan.issuer
    if issuer is None:
        return []
    ends, fingerprint = f"{issuer.ends:%Y-%m-%d}", in_groups(issuer.fingerprint)
    return [Fact.of("authority", name=issuer.name, ends=ends, fingerprint=fingerprint)]


def lacking(plan: Plan) -> list[Fact]:
    """Return a list with the fact about the first thing that a run over a network lacks. The list
    is empty if the plan is complete.
    """
    return [Fact.of("lacking", lacking=plan.lacking)] if plan.lacking else []
