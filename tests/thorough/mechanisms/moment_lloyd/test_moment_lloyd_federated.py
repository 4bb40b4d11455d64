"""MomentLloyd in a federation: the central algorithm to the bit, and safe whatever a client makes
up within the ranges.
"""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moment_situations
from designs import design_mechanism
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import OverflowRisk, PlanError
from fastlloyd.federation.plan.plan import Plan, TrustMode
from fastlloyd.federation.protocol.masked_round import Plausible
from fastlloyd.federation.protocol.messages import Message, Parameters, Proposal, Upload
from fastlloyd.federation.traffic import traffic
from fastlloyd.federation.transport.in_process import Drops, run_in_process
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.moment_lloyd import location
from fastlloyd.mechanisms.moment_lloyd import state as states
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import (
    MOMENTLLOYD,
    MeanRound,
    Rounds,
    SquaresRound,
    VotesRound,
)
from fastlloyd.mechanisms.moment_lloyd.state import State
from fastlloyd.mechanisms.queries.parameters import Parameter, Value
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.mechanisms.rounds import AnswerNoise
from federation import (
    injected_by_part,
    make_federation,
    make_plan,
    results,
    run_with_ledger,
    same_clustering,
    starts_cheaply,
)

pytestmark = pytest.mark.usefixtures("repeatable_noise")


@pytest.fixture(autouse=True)
def _cheap_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    starts_cheaply(monkeypatch)


def plan_of(d: int, k: int, trust: TrustMode = TrustMode.SERVER_NOISE, **settings: Any) -> Plan:
    return make_plan(
        3,
        algorithm=MOMENTLLOYD,
        n_clusters=k,
        n_features=d,
        trust=trust,
        max_dropouts=1,
        **settings,
    )


def mechanism(plan: Plan) -> MomentMechanism:
    assert isinstance(plan.mechanism, MomentMechanism)
    return plan.mechanism


SIGNAL: dict[str, Any] = {"epsilon": 500.0}  # so much that many features have votes too
PLANS = [
    plan_of(1, 1, TrustMode.CLIENT_NOISE, estimate_loss=True),
    plan_of(2, 3, estimate_loss=True),
    plan_of(3, 2, **SIGNAL),
    plan_of(5, 3, TrustMode.CLIENT_NOISE),
    plan_of(6, 2, **SIGNAL, estimate_loss=True),
    plan_of(40, 3),
]


# The same as in the central model


@pytest.mark.parametrize(
    "plan", PLANS, ids=lambda plan: f"{plan.mechanism.n_features} features, {plan.trust.value}"
)
def test_a_run_equals_the_central_model_with_the_same_noise_to_the_bit(plan: Plan) -> None:
    """In client-noise with the deviations that the shares of all clients have."""
    m = mechanism(plan)
    federation = make_federation(plan, seed=3)
    outcome = run_in_process(federation.server(), federation.clients())
    everyone = [plan.names] * m.n_rounds
    found = results(outcome.clients.values())
    assert len(found) == 3
    assert outcome.refused == ()
    if plan.trust is TrustMode.SERVER_NOISE:
        pooled = np.concatenate(list(federation.X.values()))
        expected = cluster(
            m, LocalRecords(m.domain, pooled), injected_by_part(m, federation.total_noise(everyone))
        )
    else:
        expected = federation.plain_result(everyone)
    assert all(same_clustering(result.clustering, expected) for result in found)


@pytest.mark.parametrize("t", [1, 2, 4, 7])
def test_where_a_client_misses_a_round_records_are_fewer_and_the_next_in_the_sum_leads(
    t: int,
) -> None:
    plan = PLANS[1]
    federation = make_federation(plan, seed=t)
    ledger: list[tuple[str, Message]] = []
    outcome = run_with_ledger(
        federation.server(), federation.clients(), ledger, link=Drops({("c0", t)})
    )
    found = results(outcome.clients.values())
    assert len(found) == 3
    assert found[0].included[t - 1] == ("c1", "c2")
    assert same_clustering(found[0].clustering, federation.plain_result(found[0].included))
    assert [m.client for _, m in ledger if isinstance(m, Parameters) and m.round == t + 1] == [
        "c1"
    ] * 4


@pytest.mark.parametrize("since", range(1, 9))
def test_a_leader_that_is_gone_for_good_is_replaced(since: int) -> None:
    plan = PLANS[1]
    federation = make_federation(plan, seed=since)
    gone = Drops(gone={"c0": since})

    def link(sender: str, recipient: str, message: Message, data: bytes) -> object:
        said_after = isinstance(message, Proposal | Parameters) and message.round >= since
        return (
            ()
            if said_after and "c0" in (sender, recipient)
            else gone(sender, recipient, message, data)
        )

    # an iterable
    outcome = run_in_process(federation.server(), federation.clients(), link=link)  # type: ignore[arg-type]
    found = results(outcome.clients.values())
    assert len(found) == 2
    assert same_clustering(found[0].clustering, found[1].clustering)
    assert same_clustering(found[0].clustering, federation.plain_result(found[0].included))


def test_with_no_dropouts_allowed_a_leader_that_is_late_ends_the_run_with_the_reason() -> None:
    federation = make_federation(make_plan(2, algorithm=MOMENTLLOYD, n_clusters=1, n_features=1))

    def link(_sender: str, _recipient: str, message: Message, data: bytes) -> tuple[bytes, ...]:
        return () if isinstance(message, Proposal) else (data,)

    outcome = run_in_process(federation.server(), federation.clients(), link=link)
    assert (
        outcome.server.reason
        == "no client computed the parameters of round 2 in time, after 1 clients were asked"
    )
    assert results(outcome.clients.values()) == []


def test_what_an_upload_was_asked_for_is_bound_to_what_the_server_relayed() -> None:
    """Nobody, the leader included, uploads before the stored parameters have come back."""
    federation = make_federation(PLANS[0])
    ledger: list[tuple[str, Message]] = []
    run_with_ledger(federation.server(), federation.clients(), ledger)
    for name in federation.plan.names:
        said = [
            type(m) for party, m in ledger if party == name and isinstance(m, Parameters | Upload)
        ]
        assert said == [Upload, *[Parameters, Upload] * len(mechanism(federation.plan).rounds)]


@pytest.mark.parametrize("plan", PLANS[:4:3])
def test_the_bytes_of_a_run_are_foretold_with_its_boxes(plan: Plan) -> None:
    federation, sent, received = make_federation(plan), Counter[str](), Counter[str]()

    def link(sender: str, recipient: str, _message: Message, data: bytes) -> tuple[bytes, ...]:
        sent[sender] += len(data)
        received[recipient] += len(data)
        return (data,)

    run_in_process(federation.server(), federation.clients(), link=link)
    for name in plan.names:
        foretold = traffic(plan, name)
        assert (foretold.sent, foretold.received) == (sent[name], received[name]), name


def test_where_nobody_is_missing_the_number_of_records_stays_as_it_is_however_large() -> None:
    """A product of floats would round numbers above 2**53, and differ from the central model."""
    m = design_mechanism(
        MOMENTLLOYD,
        PLANS[1].mechanism.domain,
        n_clusters=3,
        n_records=1 << 40,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
    )
    state = msgspec.structs.replace(State.start(m), number=(1 << 55) + 1)
    assert location.scaled(m, state, 1.0) == state
    assert location.scaled(m, state, 0.5).number == 1 << 54


# Whatever a client makes up


def made_up(parameter: Parameter, generator: np.random.Generator) -> Value:
    """At the ends of the range, near zero, or anywhere in it."""
    shape = parameter.shape
    low, high = (
        np.broadcast_to(np.asarray(end, dtype=np.int64), shape)
        for end in (parameter.least, parameter.most)
    )
    if parameter.column_square is not None:
        return moment_situations._directions(
            shape, int(generator.integers(moment_situations.ENDS)), generator
        )
    values = [
        low,
        high,
        np.clip(generator.integers(-3, 4, shape), low, high),
        generator.integers(low, high, shape, endpoint=True),
        np.where(generator.integers(2, size=shape), low, high),
    ][generator.integers(5)]
    return int(values) if shape == () else np.array(values, dtype=np.int64)


def hostile_state(m: MomentMechanism, index: int, generator: np.random.Generator) -> bytes:
    """As a client would seal it: every field anywhere in its range."""
    fields = {
        field.name: made_up(field, generator)
        for field in states._named(m, m._travelling(index - 1))
    }
    return states.encode(
        m, m._travelling(index - 1), msgspec.structs.replace(State.start(m), **fields)
    )


def state_from(plan: Plan, index: int, data: bytes) -> State:
    """Of a client that went on from these bytes, after the answer before."""
    m = mechanism(plan)
    before = m.rounds[index - 1]
    noise = AnswerNoise(deviations=(1.0,) * len(m.parts(before)), share=1.0)
    return m.read_state(
        index - 1, m.start(), np.zeros(m.shape(before), dtype=np.int64), noise, data
    )


def test_every_query_after_a_made_up_state_keeps_to_its_sensitivity() -> None:
    """For random neighbours, records at the ends of the box included: the change lies below a
    corner.
    """

    @settings(max_examples=40)
    @given(st.sampled_from(PLANS), st.integers(0, 2**32 - 1))
    def check(plan: Plan, seed: int) -> None:
        m, generator = mechanism(plan), np.random.default_rng(seed)
        for index in range(1, len(m.rounds)):
            asked = m.query(index, state_from(plan, index, hostile_state(m, index, generator)))
            assert isinstance(asked, Query)
            X = moment_situations.records(m.domain, 4, generator)
            answers = [asked.evaluate(X[:2]), asked.evaluate(X[:3]), asked.evaluate(X[[0, 1, 3]])]
            for relation, (one, other) in zip(
                NeighboringRelation,
                [(answers[0], answers[1]), (answers[1], answers[2])],
                strict=True,
            ):
                change = squares_by_part(asked, other - one)
                assert is_below(change, asked.question.sensitivity.corners(relation))
            assert all(
                max(map(abs, part)) <= bound
                for part, bound in zip(
                    moment_situations.by_part(asked.question, answers[1] - answers[0]),
                    asked.question.sensitivity.entries,
                    strict=True,
                )
                if part
            )

    check()


def squares_by_part(asked: Query, change: IntArray) -> list[int]:
    return [sum(v * v for v in part) for part in moment_situations.by_part(asked.question, change)]


def is_below(change: list[int], corners: tuple[tuple[int, ...], ...]) -> bool:
    """Whether no noise makes this dearer than the dearest corner: for prices of the parts over a
    wide range.
    """
    prices = product(
        [Fraction(0), Fraction(1, 10**6), Fraction(1), Fraction(10**6)], repeat=len(change)
    )
    return all(
        sum(p * c for p, c in zip(price, change, strict=True))
        <= max(sum(p * c for p, c in zip(price, corner, strict=True)) for corner in corners)
        for price in prices
    )


def test_whatever_was_made_up_and_answered_honest_clients_go_on() -> None:
    """No state in range, and no answer that is let in, makes the next state fail: it is in range
    again.
    """

    @settings(max_examples=25)
    @given(st.sampled_from(PLANS), st.integers(0, 2**32 - 1))
    def check(plan: Plan, seed: int) -> None:
        m, generator = mechanism(plan), np.random.default_rng(seed)
        n_records, plausible = (
            sum(client.max_records for client in plan.clients),
            Plausible.of(plan),
        )
        for index in range(1, len(m.rounds)):
            state, round = (
                state_from(plan, index, hostile_state(m, index, generator)),
                m.rounds[index],
            )
            shape = m.shape(round)
            limits = np.broadcast_to(
                n_records * plausible.bounds[index] + plausible.reaches[index], shape
            )
            answer = [
                np.zeros(shape),
                limits,
                -limits,
                generator.uniform(-1, 1, shape) * limits,
            ][generator.integers(4)].astype(np.int64)
            share = float(generator.choice([0.0, 1e-9, 0.5, 1.0, 1e9]))
            noise = AnswerNoise(
                deviations=plan.deviations(round, int(generator.integers(2, 4))), share=share
            )
            with np.errstate(over="raise", invalid="raise", divide="raise"):
                data = m.write_state(index, m.advance(index, state, answer, noise))
            after = m.read_state(index, state, answer, noise, data)
            assert m.write_state(index, after) == data
            if index + 1 == len(m.rounds):
                m.result(after)

    check()


def test_a_state_without_directions_is_gone_on_from() -> None:
    """Honest ones have one at least; k-means in no dimensions would end the run of every client
    that is asked.
    """
    plan = PLANS[4]
    m = mechanism(plan)
    index = next(i for i, round in enumerate(m.rounds) if isinstance(round, VotesRound))
    state = state_from(plan, index, bytes(m.travelling_bytes(index - 1)))
    answer, noise = (
        np.zeros(m.shape(m.rounds[index]), dtype=np.int64),
        AnswerNoise(deviations=(9.0,), share=1.0),
    )
    data = m.write_state(index, m.advance(index, state, answer, noise))
    assert m.write_state(index, m.read_state(index, state, answer, noise, data)) == data


@pytest.mark.parametrize("plan", PLANS[1:5:3])
def test_a_box_is_read_as_it_was_written_and_one_unit_out_of_range_is_refused(plan: Plan) -> None:
    m, generator = mechanism(plan), np.random.default_rng(1)
    for index in range(1, len(m.rounds) + 1):
        data, names = hostile_state(m, index, generator), m._travelling(index - 1)
        assert len(data) == states.n_bytes(m, names) == m.travelling_bytes(index - 1)
        assert states.encode(m, names, states.decode(m, names, data)) == data
        for wrong in (data[:-1], data + b"\0", b""):
            with pytest.raises(OverflowRisk, match=f"parameters have.*{len(wrong)} bytes"):
                states.decode(m, names, wrong)
        at = 0
        for field in states._named(m, names):
            dtype = field.dtype
            for end, step in ((field.least, -1), (field.most, 1)):
                value = int(np.asarray(end).ravel()[0]) + step
                lie = (
                    data[:at]
                    + np.array([value], dtype=dtype).tobytes()
                    + data[at + dtype.itemsize :]
                )
                with pytest.raises(OverflowRisk, match=field.name) as refused:
                    states.decode(m, names, lie)
                assert field.shape == () or str(value) not in str(refused.value)
            at += field.size * dtype.itemsize


# Plans from strangers


def changed(plan: Plan, kind: type, **changes: object) -> Callable[[], MomentMechanism]:
    m = mechanism(plan)
    rounds: tuple[Rounds, ...] = tuple(
        msgspec.structs.replace(round, **changes) if isinstance(round, kind) else round
        for round in m.rounds
    )
    return lambda: with_fields(m, rounds=rounds)


def with_fields(m: MomentMechanism, **changes: object) -> MomentMechanism:
    return MomentMechanism(**{name: getattr(m, name) for name in m.__struct_fields__} | changes)


def test_a_plan_that_no_run_could_bear_is_refused_when_it_is_read() -> None:
    few, many = PLANS[1], PLANS[4]
    domain = moment_situations.cube(1025, 8)
    for make, match in [
        (
            changed(few, VotesRound, n_candidates=500),
            "n_candidates is 500; with 2 features, expected a whole number to the power of 2",
        ),
        (
            changed(few, VotesRound, n_candidates=4097),
            "n_candidates is 4097; expected at most 4096",
        ),
        (
            changed(many, VotesRound, n_candidates=4097),
            "n_candidates is 4097; expected at most 4096",
        ),
        (
            lambda: with_fields(mechanism(many), n_directions=65),
            "n_directions is 65; expected 0 to 64",
        ),
        (
            lambda: with_fields(mechanism(many), domain=domain),
            "there are 1025 features; momentlloyd takes at most 1024",
        ),
    ]:
        with pytest.raises(PlanError, match=match):
            make()
    assert changed(few, VotesRound, n_candidates=23**2)().n_candidates == 529
    assert changed(few, VotesRound, n_candidates=64**2)().n_candidates == 4096


@pytest.mark.parametrize("kind", [MeanRound, SquaresRound])
def test_a_radius_beyond_the_box_is_the_diameter_of_the_box(kind: type) -> None:
    m = changed(PLANS[1], kind, radius=Fraction(16))()
    round = next(round for round in m.rounds if isinstance(round, kind))
    asked = round.query(m, State.start(m))
    most = next(p.most for p in asked.question.parameters if p.name == "radius")
    assert most - 2 <= round.clips_at(m, State.start(m)) <= most
