"""Facts about a run and a plan, which screens, pages and statements show in the words of
`facts.py`.
"""

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
    one_share_epsilon,
    person_epsilon,
)
from fastlloyd.reports.facts import cut

LARGE_EPSILON = 10.0
ENOUGH_FOR_TWO = 5  # clients, of whom two may pool what they see for a little more noise
NOT_COVERED = Fact.of("not_covered")


def whole_person(persons: Persons, *, federated: bool = True) -> Fact:
    """Return which rows belong to one person, and how often a person counts."""
    return (
        Fact.of("one_person_at_each", n=persons.max_clients) if federated else Fact.of("one_person")
    )


def has_loss(m: AnyRun) -> bool:
    """Return whether the run estimates the loss."""
    return m.n_rounds > len(m.rounds)


def protected(m: AnyRun, *, federated: bool) -> list[Fact]:
    """Return what the guarantee covers, and which data sets it compares."""
    unit = Fact.of("protected_record")
    if m.persons is not None:
        unit = Fact.of("protected_person", person=whole_person(m.persons, federated=federated))
    loss = [Fact.of("protected_loss")] if has_loss(m) else []
    return [Fact.of(f"protected_{m.finds.value}"), unit, *loss]


# Cautions


def cautions(m: AnyRun, epsilon: float | None = None) -> list[Fact]:
    """Return facts about a guarantee that is true but weak, for the screen and the statement.

    epsilon : the epsilon spent, or None for the mechanism's.
    """
    found, epsilon = [], m.epsilon if epsilon is None else epsilon
    if LARGE_EPSILON < epsilon < math.inf:
        found.append(Fact.of("large_epsilon", epsilon=epsilon))
    if m.delta * 100 * m.n_records > 1 + 1e-9:
        exposed = float(f"{m.delta * m.n_records:.2g}")
        found.append(Fact.of("large_delta", delta=m.delta, exposed=exposed))
    return found


def plan_cautions(plan: Plan) -> list[Fact | Facts]:
    """Return the cautions of the plan's mechanism, and, unless the plan is for a simulation, those
    on few clients in a sum.

    Such plans can still be read, although `plan new` no longer makes one whose clients can be led
    to two results.
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
        found.append((groups, _price_of_two_results(plan), remedy))
    if plan.host is not None and plan.max_colluding == 1 and n >= ENOUGH_FOR_TWO:
        found.append(Fact.of("host_is_the_coalition", host=plan.host))
    return found


def _price_of_two_results(plan: Plan) -> Fact:
    """Return what the results of two groups of clients, with no client in both, reveal together
    about the records (or persons) of one client.
    """
    if plan.masks is Masks.PAIRWISE:
        return Fact.of(
            f"two_results_of_{'records' if plan.mechanism.persons is None else 'persons'}"
        )
    epsilon, planned = one_share_epsilon(plan), epsilon_up(plan.mechanism.epsilon)
    name = "shares" if plan.n_shares > 1 else "one_share"
    return Fact.of(f"two_results_of_{name}", epsilon=epsilon, planned=planned)


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


def totals(plan: Plan) -> list[Fact]:
    """Return what organisations that pool what they see learn about the last one's records as a
    whole; nothing for two organisations, which `plan_cautions` warns.
    """
    if plan.n_clients == 2:
        return []
    return [Fact.of(f"totals_{plan.mechanism.finds.value}", error=profile_deviation(plan))]


def expiring(plan: Plan, now: datetime | None = None) -> list[Fact]:
    """Return a fact for each certificate that may end before a run that begins now.

    now : None for the system's clock.
    """
    longest = (plan.mechanism.n_rounds + 3) * plan.timeouts.round
    return [
        Fact.of("expiring", name=one.name, ends=f"{one.ends:%Y-%m-%d}", longest=longest)
        for one in plan.expiring(datetime.now(UTC) if now is None else now)
    ]


# The run


def study(plan: Plan) -> list[Fact]:
    """Return purpose and responsible people of the study, or nothing if the plan has none."""
    texts = {} if plan.study is None else plan.study.texts
    return [Fact.of(f"study_{what}", text=text) for what, text in texts.items()]


def found(name: str, m: AnyRun, **values: object) -> Fact:
    """Return the fact of that name about what the run finds."""
    if isinstance(m, Mechanism):
        values["n_clusters"] = m.n_clusters
    return Fact.of(f"{name}_{m.finds.value}", name=m.name, **values)


def ranges(m: AnyRun, most: int | None = None) -> str:
    """Return every feature with its public bounds or range.

    most : name at most this many features, or all if None.
    """
    d = m.domain
    each = zip(d.features, d.lower, d.upper, strict=True)
    named = (Fact.of("range", name=name, low=low, high=high) for name, low, high in each)
    return cut(named, "more_ranges", most, "; ")


def cap(m: AnyRun) -> Fact:
    """Return the cap on records or persons of all clients together."""
    return Fact.of("cap" if m.persons is None else "cap_of_persons", n_records=m.n_records)


def noise_factor(plan: Plan, n_included: int | None = None) -> float:
    """Return sqrt(n / h): the standard deviation of the noise in a sum of n clients, divided by the
    one that the guarantee needs.

    h is the number of shares that make up the guarantee. n_included is n; None means all clients of
    the plan.
    """
    if plan.trust is TrustMode.SERVER_NOISE:
        return 1.0
    n = plan.n_clients if n_included is None else n_included
    return math.sqrt(n / plan.quorum(n).shares)


# The guarantee


def guarantee(m: AnyRun) -> Fact:
    """Return what is protected, and with which epsilon and delta."""
    return Fact.of(
        "protection_and_loss" if has_loss(m) else "protection",
        epsilon=epsilon_up(m.epsilon),
        delta=delta_up(m.delta),
        relation=m.neighboring_relation.value.replace("_", " "),
        n_rounds=len(m.rounds),
    )


def simulated(plan: Plan) -> Fact:
    """Return against which parties the guarantee of a simulation holds."""
    return Fact.of("simulation", against=holds_against(plan))


def trust(plan: Plan) -> Facts:
    """Return against which parties the noise protects, and how much more noise that takes."""
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
    """Return what is protected, against which parties, and at which price; `plan_cautions` belong
    after the first.
    """
    if plan.simulated:
        return [(simulated(plan),)]
    return [(Fact.of("no_party_sees"),), trust(plan), (attendance(plan),)]


def attendance(plan: Plan) -> Fact:
    """Return how many clients may be missing, and when."""
    if plan.masks is Masks.GROUP:
        return Fact.of("may_miss_a_round", n=plan.max_dropouts)
    if plan.max_dropouts == 0:
        return Fact.of("all_must_join", n=plan.n_clients)
    return Fact.of("may_miss_the_keys", n=plan.max_dropouts)


def left(plan: Plan) -> tuple[list[Fact], list[Fact]]:
    """Return the question and, for each coalition, the epsilon that is left; both are empty for a
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
    """Return what several records of one person mean, or several organisations with rows of one
    person.
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
    """Return what happens to a run if a client goes away, or nothing if the run goes on without
    it.
    """
    if plan.masks is Masks.GROUP:
        return []
    n = plan.n_clients
    percent = round(100 * 0.99**n)
    return [Fact.of("liveness", round=plan.timeouts.round, n=n, percent=percent)]


def waiting(plan: Plan) -> Fact:
    """Return how long the parties wait for each other."""
    t, kind = plan.timeouts, "group" if plan.masks is Masks.GROUP else "pairs"
    return Fact.of(
        f"waits_for_{kind}",
        joining=t.joining, dealing=t.dealing, round=t.round, confirming=t.confirming,
    )  # fmt: skip


def transport(plan: Plan) -> Facts:
    """Return the bytes of each round."""
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

    fingerprint : SHA-256 of its certificate, or empty without one. ends : its last day, or empty.
    """

    role: Fact
    fingerprint: str
    ends: str


def client_cap(client: Client) -> Fact:
    """Return the cap of a client, and how many events its store has at least, if that is known."""
    if client.store is None:
        return Fact.of("client_cap", name=client.name, cap=client.max_records)
    return Fact.of(
        "client_cap_and_store",
        name=client.name,
        cap=client.max_records,
        events=client.store.length,
    )


def parties(plan: Plan) -> list[PartyOfPlan]:
    """Return the server and each client."""
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
    """Return the authority that issued all certificates, or nothing if the plan names none."""
    issuer = plan.issuer
    if issuer is None:
        return []
    ends, fingerprint = f"{issuer.ends:%Y-%m-%d}", in_groups(issuer.fingerprint)
    return [Fact.of("authority", name=issuer.name, ends=ends, fingerprint=fingerprint)]


def lacking(plan: Plan) -> list[Fact]:
    """Return what a run over a network lacks, or nothing if the plan is complete."""
    return [Fact.of("lacking", lacking=plan.lacking)] if plan.lacking else []
