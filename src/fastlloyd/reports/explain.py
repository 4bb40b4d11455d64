"""Plan in plain words: what is protected against which parties, at which epsilon for which
coalition, and how everything was chosen.

**Certainty.** Take an observer who knows everything except whether one record is in the data. The
observer believes with probability p that it is, sees all that the run reveals, and then believes it
with probability q. Let P be the distribution of outcomes with the record, Q without it. Let B be
the outcomes after which the odds q / (1 - q) are more than r times p / (1 - p): those with a
probability ratio above r. So Q(B) <= P(B) / r. Under epsilon-DP, B is empty for r = e^epsilon.
Under mu-GDP no test beats the best test of N(0, 1) against N(mu, 1), so Phi^-1(P(B)) <=
Phi^-1(Q(B)) + mu. With r = k / Phi(Phi^-1(k) - mu) it follows that P(B) <= k. Hence

    q <= p r / (1 - p + p r), except with probability at most k,   where k is the plan's delta.

An observer with p = 1/2 guesses right, on average over all outcomes, with probability at most
Phi(mu / 2), or e^epsilon / (1 + e^epsilon).

Sources: Wood et al., "Differential Privacy: A Primer for a Non-Technical Audience" (2018), for
epsilon; Kasiviswanathan and Smith, "On the 'Semantics' of Differential Privacy" (2014), for the
effect of delta. The bound for mu-GDP follows from its definition (Dong, Roth and Su 2022). All
numbers are rounded up, by more than adding up shares of noise can move them.
"""

import math
from datetime import UTC, datetime
from typing import Any

from fastlloyd.base.precision import delta_up, epsilon_up, exact, rounded_up, working_precision
from fastlloyd.base.sealed_toml import in_groups
from fastlloyd.dp.gdp import mu_from_squared
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.federation.plan.plan import Client, Plan, Server
from fastlloyd.federation.plan.quorum import Masks, TrustMode
from fastlloyd.federation.secagg.ring import Ring
from fastlloyd.federation.secagg.sealing import TAG_BYTES
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.reports.coalitions import (
    clients,
    coalition,
    coalitions,
    holds_against,
    person_epsilon,
)
from fastlloyd.reports.outside import bullets, outside_of_plan
from fastlloyd.reports.statement import plan_cautions, totals, whole_person

_BITS = 200  # of precision, for certainties


def explain(plan: Plan) -> str:
    """Return the plan as Markdown, for the people who decide whether to take part."""
    m = plan.mechanism
    said = [
        _title(plan),
        "\n".join(study(plan)),
        f"Public {m.clipped_to}, to which values are clipped: {bounds(m, 20)}. {most_in_all(m)}.",
        protection(plan),
        coalition_table(plan),
        certainty_table(m),
        persons(plan),
        _choices(m, noise_factor(plan)),
        _transport(plan),
        _parties(plan),
        f"Outside the guarantee:\n{bullets(outside_of_plan(plan))}",
    ]
    return "\n\n".join(filter(None, said))


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


def _title(plan: Plan) -> str:
    m = plan.mechanism
    return (
        f"Plan {plan.digest.hex()}\n{plan.n_clients} clients ({', '.join(plan.names)}) run {m.name}"
        f" together: {m.aim} of records with {m.n_features} features"
        f" ({', '.join(map(repr, m.domain.features))})."
    )


def study(plan: Plan) -> list[str]:
    """Return purpose and responsible people of the study, one line each, or nothing if the plan has
    none.
    """
    labels = {
        "name": "Study",
        "purpose": "Purpose",
        "controller": "Controller",
        "contact": "Contact",
    }
    return (
        []
        if plan.study is None
        else [f"{labels[what]}: {text}" for what, text in plan.study.texts.items()]
    )


def bounds(m: AnyRun, most: int | None = None) -> str:
    """Return every feature with its public bounds or range.

    most : name at most this many features, or all if None.
    """
    d = m.domain
    named = [
        f"{name!r} from {low:g} to {high:g}"
        for name, low, high in zip(d.features, d.lower, d.upper, strict=True)
    ]
    more = (
        [f"and {len(named) - most} more features"] if most is not None and len(named) > most else []
    )
    return "; ".join([*named[:most], *more])


def most_in_all(m: AnyRun) -> str:
    """Return the cap on records or persons of all clients together, as a sentence without a full
    stop.
    """
    once = (
        ""
        if m.persons is None
        else f", each counted once at each organisation where the {m.unit.one} is"
    )
    return f"At most {m.n_records} {m.unit.many} in all{once}"


def protection(plan: Plan) -> str:
    """Return what is protected, against which parties, and at which price."""
    m, one = plan.mechanism, plan.mechanism.unit.one
    delta = f" and delta = {delta_up(m.delta)}" if m.delta else ""
    relation = m.neighboring_relation.value.replace("_", " ")
    lines = [
        (
            f"What is protected: every single {one}. What anyone learns from the run hardly depends"
            f" on one {one} being in the data: epsilon = {epsilon_up(m.epsilon)}{delta},"
            f" neighbouring relation: {relation}, over all {len(m.rounds)}"
            f" rounds{' and the estimate of the loss' if m.n_rounds > len(m.rounds) else ''}."
        ),
        *(f"WARNING: {caution}." for caution in plan_cautions(plan)),
    ]
    if plan.simulated:
        return "\n".join([*lines, simulated(plan)])
    lines.append(
        "No party sees another's records: clients upload sums and counts masked, and the server"
        " adds up masked numbers."
    )
    if plan.n_clients > 2:
        lines.append(f"But {totals(plan)}.")
    if plan.trust is TrustMode.SERVER_NOISE:
        lines.append(
            "Trust: server-noise. The server adds all the noise. This holds against any number of"
            " clients without the server, and against an honest-but-curious server THAT NEVER SEES"
            " A RESULT: with published centroids and its own noise it could compute exact"
            f" sums{_of_server_noise(plan)}. Keep the results from the server, for ever; if you"
            " cannot, use client-noise."
        )
    else:
        lines.append(_shared_noise(plan))
    lines.append(attendance(plan))
    return "\n".join(lines)


def simulated(plan: Plan) -> str:
    """Return a sentence that says against which parties the guarantee of a simulation holds."""
    return f"This is a simulation: the guarantee holds against {holds_against(plan)}."


def _of_server_noise(plan: Plan) -> str:
    if plan.masks is Masks.GROUP:
        return ""
    return ", and together with any client it has the exact sum over the others in every round"


def _shared_noise(plan: Plan) -> str:
    """Return against which parties shares of noise protect, and how much more noise that takes."""
    epsilon, h = plan.mechanism.epsilon, plan.n_shares
    price = f"the noise is {noise_factor(plan):.3f} times as large as with a trusted server"
    if plan.masks is Masks.GROUP:
        return (
            "Trust: client-noise, with group masks. Every client adds its share of the noise"
            f" before masking; {h} {'shares are' if h > 1 else 'share is'} enough for the"
            " guarantee. It holds against an honest-but-curious server that may see the results,"
            f" and against {coalition(plan.max_colluding)}, with up to {plan.max_dropouts} absent."
            " It is not meant to hold against the server together with a client: the table says"
            f" what is left. Price: {price}."
        )
    if plan.max_dropouts:
        price += (
            f", {noise_factor(plan, plan.min_present):.3f} times if only {plan.min_present} clients"
            " are there"
        )
    return (
        "Trust: client-noise, with pairwise masks. Every client adds its share of the noise before"
        f" masking. It protects against {holds_against(plan)}: epsilon = {epsilon_up(epsilon)}. The"
        f" table says what is left for more clients. Price: {price}."
    )


def attendance(plan: Plan) -> str:
    """Return how many clients may be missing, and when."""
    D = plan.max_dropouts
    if plan.masks is Masks.GROUP:
        return f"At most {clients(D)} may miss a round."
    if D == 0:
        return f"All {plan.n_clients} clients must join, and answer every round."
    return (
        f"At most {clients(D)} may be missing when the keys are dealt; all others must answer every"
        " round."
    )


def liveness(plan: Plan) -> list[str]:
    """Return what happens to a run if a client goes away, or nothing if the run goes on without
    it.
    """
    if plan.masks is Masks.GROUP:
        return []
    M = plan.n_clients
    said = (
        "All that join must answer every round. One that is lost for good ends the run: what was"
        " sent stays spent, the rest is released. One that is back within"
        f" {duration(plan.timeouts.round)} loses nothing. If each of {M} clients stays to the end"
        f" with a probability of 99 %, the run succeeds with {round(100 * 0.99**M)} %."
    )
    return [said]


def expiring(plan: Plan, now: datetime | None = None) -> list[str]:
    """Return a sentence for each certificate that may end before a run that begins now.

    now : None for the system's clock.
    """
    longest = duration((plan.mechanism.n_rounds + 3) * plan.timeouts.round)
    return [
        f"the certificate of {certificate.name!r:.200} ends on {certificate.ends:%Y-%m-%d}, and a"
        f" run of this plan may take {longest}: put a newer one into the plan with `fastlloyd plan"
        " renew`"
        for certificate in plan.expiring(datetime.now(UTC) if now is None else now)
    ]


def duration(seconds: int) -> str:
    """Return seconds, or whole hours, in words."""
    hours, rest = divmod(seconds, 3600)
    return f"{seconds} s" if rest or not hours else f"{hours} hour{'s' if hours > 1 else ''}"


def waiting(plan: Plan) -> str:
    """Return how long the parties wait for each other."""
    t = plan.timeouts
    joining, dealing, round, confirming = map(
        duration, (t.joining, t.dealing, t.round, t.confirming)
    )
    if plan.masks is Masks.GROUP:
        return (
            f"A run waits {joining} for everyone to join, {round} for the uploads of a round,"
            f" {dealing} for what one client prepares for all in between, and {confirming} for"
            " everyone to confirm the result."
        )
    return (
        f"A run waits {joining} for everyone to join, {round} for everyone's keys and for the"
        f" uploads of each round, and {confirming} for everyone to confirm the result. If a client"
        f" does not send what all others need, another one is asked after {dealing}."
    )


def authority(plan: Plan) -> list[str]:
    """Return a sentence about the authority that issued all certificates, or nothing if the plan
    names none.
    """
    issuer = plan.issuer
    if issuer is None:
        return []
    said = (
        f"Every certificate was issued by the authority {issuer.name!r:.200}, whose own is valid"
        f" until {issuer.ends:%Y-%m-%d} and has the SHA-256 {in_groups(issuer.fingerprint)}. That"
        " keeps others out; whom it lets in, the fingerprints above say."
    )
    return [said]


def parties(plan: Plan) -> list[tuple[str, str, str]]:
    """Return name and role, SHA-256 of the certificate and its last day, for the server and each
    client.

    The last two are empty for a party without a certificate.
    """
    expires = {certificate.name: str(certificate.expires) for certificate in plan.certificates()}
    place = f", on the machine of {plan.host}" if plan.host else ""
    roles: list[tuple[Client | Server, str]] = [
        (plan.server, f"the server, at {plan.server.address or 'no address'}{place}")
    ]
    many = plan.mechanism.unit.many
    roles += [
        (client, f"at most {client.max_records} {many}{store_in_words(client)}")
        for client in plan.clients
    ]
    return [
        (
            f"{party.name}: {role}",
            party.fingerprint if party.certificate else "",
            expires.get(party.name, ""),
        )
        for party, role in roles
    ]


def lacking(plan: Plan) -> list[str]:
    """Return a sentence about what a run over a network lacks, or nothing if the plan is
    complete.
    """
    return [f"For simulations only: {plan.lacking}."] if plan.lacking else []


def _parties(plan: Plan) -> str:
    lines = [
        (
            "Who takes part, each with the SHA-256 of its certificate, to be compared with its"
            " owner over a different channel:"
        )
    ]
    for who, fingerprint, expires in parties(plan):
        lines.append(
            f"- {who}; "
            + (f"{in_groups(fingerprint)}, until {expires}" if fingerprint else "no certificate")
        )
    return "\n".join([*lines, *authority(plan), waiting(plan), *lacking(plan)])


def store_in_words(client: Client) -> str:
    """Return the least length of the client's store, if the plan gives one, to follow its cap of
    records.
    """
    return "" if client.store is None else f", a store of at least {client.store.length} events"


def coalition_table(plan: Plan) -> str:
    """Return one line for each coalition, or nothing for a simulation."""
    if plan.simulated:
        return ""
    delta = f", at delta = {delta_up(plan.mechanism.delta)}" if plan.mechanism.delta else ""
    one = plan.mechanism.unit.one
    rows = [
        (
            f"Against those who pool what they see, every {one} of the others is protected with"
            f" this epsilon{delta}:"
        )
    ]
    for row in coalitions(plan):
        value = "nothing is protected" if row["epsilon"] is None else rounded_up(row["epsilon"])
        rows.append(f"- {row['who']}: {value}")
    return "\n".join(rows)


def certainty(m: AnyRun, before: float) -> float:
    """Return the largest probability that an observer gives to a record after the run, if it was
    `before`.

    The bound holds except with probability delta.
    """
    with working_precision(_BITS) as mp:
        p = exact(mp, before)
        odds = p / (1 - p) * _ratio(mp, m)
        return min(1.0, float(odds / (1 + odds)) * (1 + 2**-40))


def right_guesses(m: AnyRun) -> float:
    """Return the largest probability that an observer who starts at even odds guesses correctly
    whether one record is in the data.
    """
    with working_precision(_BITS) as mp:
        if m.noise is Noise.LAPLACE:
            return float(1 / (1 + mp.exp(-m.epsilon))) * (1 + 2**-40)
        return float(mp.ncdf(exact(mp, mu_from_squared(m.accountant().mu_squared)) / 2)) * (
            1 + 2**-40
        )


def _ratio(mp: Any, m: AnyRun) -> Any:
    """Return r, the largest factor by which the odds grow."""
    if m.noise is Noise.LAPLACE:
        return mp.exp(m.epsilon)
    mu, k = exact(mp, mu_from_squared(m.accountant().mu_squared)), exact(mp, m.delta)
    mp.prec += 2 * max(0, -mp.mag(k))
    quantile = -mp.sqrt(2) * mp.erfinv(1 - 2 * k)
    return k / mp.ncdf(quantile - mu)


def certainty_table(m: AnyRun) -> str:
    """Return how certain an observer can become that one record is in the data, for several
    starts.
    """
    replaced = m.neighboring_relation is NeighboringRelation.REPLACE_ONE
    (one, many), has = (
        m.unit,
        "values a record has" if m.persons is None else f"sets of rows {m.unit.a} has",
    )
    what = f"which of two {has}" if replaced else f"that a certain {one} is in the data"
    rows = [
        f"- who was {before} % certain before is at most {_percent(certainty(m, before / 100))}"
        " certain afterwards"
        for before in (1, 10, 50, 90)
    ]
    but = f"This holds but for a probability of at most {delta_up(m.delta)}. " if m.delta else ""
    return "\n".join(
        [
            (
                f"How certain anyone can become {what}, who knows all other {many} and sees"
                " everything that the run reveals:"
            ),
            *rows,
            (
                f"{but}Anyone who thought both equally likely guesses right in at most"
                f" {_percent(right_guesses(m))} of all cases."
            ),
        ]
    )


def persons(plan: Plan) -> str:
    """Return the epsilon of a person with several records, or, if persons are protected, with rows
    at several organisations.
    """
    delta = f" at delta = {delta_up(plan.mechanism.delta)}" if plan.mechanism.delta else ""
    if (persons := plan.mechanism.persons) is not None:
        return _of_persons(plan, persons, delta)
    several = [f"{rounded_up(person_epsilon(plan, n))} with {n} records" for n in (2, 5, 10)]
    return (
        "What is protected is a record, not a person. A person with several records, at one"
        f" organisation or at several, is protected as a whole with a larger epsilon{delta}:"
        f" {', '.join(several)}."
    )


def _of_persons(plan: Plan, persons: Persons, delta: str) -> str:
    c, M = persons.max_clients, plan.n_clients
    said = (
        f"{whole_person(persons)}. Rows that stand under a wrong id, or under several, are"
        " protected as if they were other people's, and nobody can find that out."
    )
    more = [n for n in dict.fromkeys((c + 1, 2 * c, M)) if c < n <= M]
    if not more:
        return said
    several = [f"{rounded_up(person_epsilon(plan, n))} at {n}" for n in sorted(more)]
    return (
        f"{said} Whoever is at more organisations is protected with a larger epsilon{delta}:"
        f" {', '.join(several)}."
    )


def _percent(share: float) -> str:
    """Return the share in percent, rounded up to one digit after the point."""
    return f"{math.ceil(share * 1000) / 10:g} %"


def _choices(m: AnyRun, factor: float) -> str:
    by, of_rounds, of_result = m.choices(factor)
    return "\n- ".join(
        [f"How it was chosen, from {by}:", *of_rounds, *m.afterwards(factor), *of_result]
    )


def _transport(plan: Plan) -> str:
    """Return the bytes of a round, in words."""
    m, itemsize = plan.mechanism, Ring.of(plan.ring_bits).itemsize
    payloads = [plan.n_words(round) * itemsize for round in m.rounds]
    least, most = min(payloads), max(payloads)
    said = f"{most} from each client and {most} back"
    if least < most:
        said = (
            f"{least} to {most} from each client and as many back, {sum(payloads)} in all"
            f" {len(payloads)} rounds"
        )
    if boxes := [
        n + TAG_BYTES for number in range(m.n_rounds) if (n := m.travelling_bytes(number))
    ]:
        said += f"; between rounds the sealed parameters of the next, up to {max(boxes)}"
    end = " The loss takes less." if m.n_rounds > len(m.rounds) else ""
    return (
        f"Bytes per round: {said}. A message has at most 128 bytes more, and 8 for each client that"
        f" it names.{end}"
    )
