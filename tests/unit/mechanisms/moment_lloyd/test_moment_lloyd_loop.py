"""The fold: equal states ask equal queries, and no noisy answer, however wild, leads out of the
ranges of the state.
"""

from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from designs import design_mechanism
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD, StepRound
from fastlloyd.mechanisms.moment_lloyd.state import State, fields
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.mechanisms.rounds import AnswerNoise


def cube(d: int, fraction_bits: int = 16) -> Domain:
    return Domain(
        features=tuple(f"x{i}" for i in range(d)),
        lower=(-1.0,) * d,
        upper=(1.0,) * d,
        fraction_bits=fraction_bits,
    )


def mechanism(
    domain: Domain, n_records: int, epsilon: float, *, count_bits: int = 0
) -> MomentMechanism:
    return design_mechanism(
        MOMENTLLOYD,
        domain,
        n_clusters=3,
        n_records=n_records,
        epsilon=epsilon,
        public_seed=PublicSeed.from_int(1),
        count_bits=count_bits,
    )


NARROW = Domain(
    features=("x", "y", "z", "w"),
    lower=(0.0,) * 4,
    upper=(9.0, 3.0, 1.0, 0.001),
    scaling=Scaling.COMMON,
)
MECHANISMS = [
    mechanism(cube(1), 500, 0.5),
    mechanism(cube(3, 8), 500, 2.0, count_bits=5),
    mechanism(cube(2, 24), 100, 0.1),
    mechanism(NARROW, 500, 1.0),
    mechanism(cube(5), 3000, 4.0),
    mechanism(cube(33, 12), 300, 1.0),
]
IDS = [f"{m.n_features}-features-{len(m.rounds)}-rounds" for m in MECHANISMS]


def answers(
    m: MomentMechanism, generator: np.random.Generator, bits: int
) -> list[np.ndarray[tuple[int, int], np.dtype[np.int64]]]:
    """Noise of up to 2^bits in every entry, half of the rounds at one of the two ends."""
    found = []
    for round in m.rounds:
        shape = m.shape(round)
        ends = generator.choice(np.array([-1, 1]), shape) << bits
        found.append(
            ends
            if generator.integers(2)
            else generator.integers(-(1 << bits), 1 << bits, shape, endpoint=True)
        )
    return found


def check_ranges(m: MomentMechanism, state: State) -> None:
    for field in fields(m):
        field.check(getattr(state, field.name))


@pytest.mark.parametrize("m", MECHANISMS, ids=IDS)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32 - 1), bits=st.sampled_from([0, 10, 40, 61]))
def test_no_answer_leads_out_of_range(m: MomentMechanism, seed: int, bits: int) -> None:
    """What noise cannot do a hostile server might try: every field in range, every query one that
    `ask` accepts.
    """
    state = State.start(m)
    check_ranges(m, state)
    for number, (round, answer) in enumerate(
        zip(m.rounds, answers(m, np.random.default_rng(seed), bits), strict=True)
    ):
        assert isinstance(round.query(m, state), Query)
        state = m.advance(number, state, answer, m.answer_noise(number))
        check_ranges(m, state)


@pytest.mark.parametrize("m", MECHANISMS, ids=IDS)
def test_equal_states_and_answers_give_equal_queries_and_states(m: MomentMechanism) -> None:
    one = other = State.start(m)
    for number, (round, answer) in enumerate(
        zip(m.rounds, answers(m, np.random.default_rng(5), 20), strict=True)
    ):
        assert round.query(m, one).digest == round.query(m, other).digest
        noise = m.answer_noise(number)
        one, other = (
            m.advance(number, one, answer, noise),
            m.advance(number, other, answer.copy(), noise),
        )
        for field in fields(m):
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


def anywhere(m: MomentMechanism, generator: np.random.Generator) -> State:
    """A state of entries anywhere in their ranges, ends included."""
    values: dict[str, Any] = {}
    for field in fields(m):
        least, most = (np.broadcast_to(end, field.shape) for end in (field.least, field.most))
        entries = generator.choice(np.stack([least, most, (least + most) // 2]), axis=0)
        if field.column_square is not None:
            entries = np.zeros(field.shape, dtype=np.int64)
            if entries.size:
                entries[generator.integers(field.shape[0]), :] = 1 << 20
        values[field.name] = entries.astype(np.int64) if field.shape else int(entries)
    return State(**values)


@pytest.mark.parametrize("m", MECHANISMS, ids=IDS)
def test_every_state_in_range_asks_queries_in_range(m: MomentMechanism) -> None:
    for seed in range(20):
        state = anywhere(m, np.random.default_rng(seed))
        for round in m.rounds:
            assert isinstance(round.query(m, state), Query)


def test_the_radius_of_a_step_is_the_integer_root_of_integers() -> None:
    """By another route: R is the largest integer with R^2 <= c^2 spread, between a thousandth and
    the half diagonal.
    """
    m = MECHANISMS[0]
    round = next(round for round in m.rounds if isinstance(round, StepRound))
    for spread in (0, 1, 10**6, 10**8 + 1, 2**33):
        R = round.clips_at(m, msgspec.structs.replace(State.start(m), spread=spread))
        target = round.radius**2 * spread
        least, most = -(-(1 << 16) // 1000), 1 << 16
        assert isinstance(R, int)
        assert least <= R <= most
        assert least == R or target >= R**2
        assert most == R or target < (R + 1) ** 2


def test_a_state_that_differs_asks_something_else() -> None:
    m = MECHANISMS[0]
    step = m.rounds[-1]
    state = State.start(m)
    moved = msgspec.structs.replace(state, centroids=state.centroids + 1)
    assert step.query(m, state).digest != step.query(m, moved).digest


def test_excess_noise_is_taken_into_account() -> None:
    """A count that is believed less counts less beside the expected number."""
    m = MECHANISMS[0]
    answer = np.array([[0, 250]], dtype=np.int64)
    scales = [float(scale) for scale in m.rounds[0].scales]
    numbers = []
    for excess in (1.0, 3.0, 100.0):
        noisier = AnswerNoise(deviations=tuple(excess * scale for scale in scales), share=1.0)
        numbers.append(m.advance(0, State.start(m), answer, noisier).number)
    assert numbers == sorted(numbers)
    assert Fraction(numbers[0], 1 << 16) < 400 < Fraction(numbers[-1], 1 << 16) <= 500
