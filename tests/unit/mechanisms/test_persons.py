"""Plans and mechanisms of persons: units, costs, what is refused, and a federated run that is the
central one bit for bit.
"""

from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import DataError, PlanError
from fastlloyd.federation.plan.plan import TrustMode, ring_load
from fastlloyd.mechanisms.answering import LocalRecords, SharedRecords
from fastlloyd.mechanisms.catalogue import design, read_mechanism
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, LLOYD, SULLOYD
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD, SecondMomentRound, SquaresRound
from fastlloyd.mechanisms.persons import Persons, Unit
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings
from fastlloyd.testing import SeededNoise
from federation import (
    make_plan,
)

ALGORITHMS = pytest.mark.parametrize(
    "algorithm", [FASTLLOYD, GLLOYD, SULLOYD, MOMENTLLOYD], ids=lambda a: a.name
)
RELATIONS = pytest.mark.parametrize("relation", NeighboringRelation, ids=lambda r: r.value)


def mechanism(algorithm: AnyAlgorithm = MOMENTLLOYD, d: int = 3, **settings: Any) -> Mechanism:
    domain = Domain(features=tuple(f"x{i}" for i in range(d)), lower=(-1.0,) * d, upper=(1.0,) * d)
    given: dict[str, Any] = {
        "n_clusters": 3,
        "n_records": 2000,
        "epsilon": 1.0,
        "public_seed": PublicSeed.from_int(0),
    } | settings
    return design(Settings(algorithm=algorithm, domain=domain, **given))


# What it costs


@ALGORITHMS
@RELATIONS
@pytest.mark.parametrize("c", [1, 3])
def test_in_units_of_a_person_the_noise_is_that_of_records_times_the_number_of_clients(
    algorithm: AnyAlgorithm, relation: NeighboringRelation, c: int
) -> None:
    """The same rounds, c times the noise; what its scales are rounded up to is finer by the
    shares.
    """
    chosen: dict[str, Any] = {"neighboring_relation": relation}
    if algorithm is not MOMENTLLOYD:
        chosen["n_iterations"] = 3
    records = mechanism(algorithm, **chosen, n_records=10**6)
    persons = mechanism(algorithm, **chosen, n_records=10**6, persons=Persons(max_clients=c))
    assert len(records.rounds) == len(persons.rounds)
    for one, other in zip(records.rounds, persons.rounds, strict=True):
        fineness = getattr(one, "units", 1) / getattr(other, "units", 1)
        power = 2 if isinstance(one, SquaresRound | SecondMomentRound) else 1
        for plain, shared in zip(one.scales, other.scales, strict=True):
            assert float(shared) * fineness**power == pytest.approx(
                1024 * c * float(plain), rel=2e-4
            )


@RELATIONS
def test_a_replaced_person_costs_what_one_added_does_where_that_is_dearer(
    relation: NeighboringRelation,
) -> None:
    """With one cluster two records that change places cost nothing in the count; a person without
    rows does.
    """
    m = mechanism(FASTLLOYD, n_clusters=1, neighboring_relation=relation, persons=Persons())
    cost = m.accountant().mu_squared
    added = m.accountant_of(m.rounds[0], NeighboringRelation.ADD_OR_REMOVE_ONE).mu_squared
    assert m.accountant_of(m.rounds[0]).mu_squared >= added
    assert cost <= Fraction(2) ** 8


def test_persons_at_several_clients_are_planned_for_as_so_many_times_fewer() -> None:
    one, three = (mechanism(persons=Persons(max_clients=c), n_records=6000) for c in (1, 3))
    third = mechanism(persons=Persons(), n_records=6000, n_expected=2000)
    assert three.expected_error().typical > 1.5 * one.expected_error().typical
    assert three.expected_error().typical == pytest.approx(third.expected_error().typical, rel=1e-3)
    assert [type(round) for round in three.rounds] == [type(round) for round in third.rounds]


@pytest.mark.parametrize("d", [2, 4, 20, 64])
@pytest.mark.parametrize("n_records", [100, 10**6, 10**9])
@pytest.mark.parametrize("c", [1, 100])
def test_squares_fit_and_their_noise_is_drawn_quickly(d: int, n_records: int, c: int) -> None:
    m = mechanism(d=d, n_records=n_records, persons=Persons(max_clients=c))
    (squares,) = (
        round for round in m.rounds if isinstance(round, SquaresRound | SecondMomentRound)
    )
    assert n_records * squares.units**2 * 1024 <= 2**58
    assert max(squares.scales) <= 2**38


def test_count_bits_are_chosen_for_shares_whose_noise_is_large_already() -> None:
    records, persons = (make_plan(5, epsilon=20.0, persons=of) for of in (None, Persons()))
    assert records.mechanism.count_bits > 0
    assert persons.mechanism.count_bits == 0
    assert persons.mechanism.number_bits == 10


@ALGORITHMS
def test_the_ring_is_loaded_with_shares_the_loss_included(algorithm: AnyAlgorithm) -> None:
    trust = TrustMode.SERVER_NOISE if algorithm.noise is Noise.LAPLACE else TrustMode.CLIENT_NOISE
    plan = make_plan(algorithm=algorithm, trust=trust, estimate_loss=True, persons=Persons())
    load, m = ring_load(plan), plan.mechanism
    assert isinstance(m, Mechanism)
    assert m.loss is not None
    assert load.loss.bound == 1024 * m.loss.cap
    bounds = {part.bound for round in m.rounds for part in m.parts(round)}
    loaded = {load.sums.bound, load.counts.bound, *(other.bound for other in load.others)}
    assert max(bounds) == max(loaded)
    assert loaded - {0} <= bounds
    assert all(bound % 1024 == 0 for bound in bounds)


# What is refused


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"weight_bits": 0}, "weight_bits is 0; expected 1 to 15"),
        ({"weight_bits": 16}, "expected 1 to 15"),
        ({"max_clients": 0}, "max_clients is 0"),
        ({"max_clients": True}, "max_clients is True"),
        ({"name": "two words"}, "expected a word such as patient"),
    ],
)
def test_persons_out_of_range_are_refused(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(PlanError, match=match):
        Persons(**changes)


def test_a_plan_of_persons_needs_64_bits() -> None:
    with pytest.raises(PlanError, match=r"ring_bits is 32;.*patients"):
        make_plan(ring_bits=32, persons=Persons(name="patient"))


def test_a_person_is_at_no_more_clients_than_there_are() -> None:
    with pytest.raises(PlanError, match="max_clients_per_person is 4"):
        make_plan(persons=Persons(name="infant", max_clients=4))


@pytest.mark.usefixtures("repeatable_noise")
def test_records_without_shares_are_refused_by_a_mechanism_of_persons_and_the_other_way_round() -> (
    None
):
    grid: IntArray = np.zeros((4, 3), dtype=np.int64)
    of_persons, of_records = mechanism(persons=Persons()), mechanism()
    for m, records in (
        (of_persons, LocalRecords(of_persons.domain, grid)),
        (of_records, SharedRecords.of_persons(of_persons, grid, [b"a"] * 4)),
        (
            mechanism(persons=Persons(weight_bits=9)),
            SharedRecords.of_persons(of_persons, grid, [b"a"] * 4),
        ),
    ):
        with pytest.raises(DataError, match=r"one.*for persons"):
            cluster(m, records, SeededNoise(0))


@pytest.mark.usefixtures("repeatable_noise")
def test_the_cap_counts_persons() -> None:
    grid: IntArray = np.zeros((40, 3), dtype=np.int64)
    m = mechanism(FASTLLOYD, n_records=5, persons=Persons(name="patient"))
    cluster(
        m, SharedRecords.of_persons(m, grid, [b"%d" % (i % 5) for i in range(40)]), SeededNoise(0)
    )
    with pytest.raises(
        DataError,
        match=r"patients.*n_records;.*patients out",
    ):
        cluster(
            m,
            SharedRecords.of_persons(m, grid, [b"%d" % (i % 6) for i in range(40)]),
            SeededNoise(0),
        )


def test_a_mechanism_of_persons_is_read_as_it_was_written_and_records_have_the_digest_they_had() -> (
    None
):
    m = mechanism(persons=Persons(name="patient", max_clients=2, weight_bits=9))
    assert read_mechanism(m.to_toml()) == m
    assert "persons" not in mechanism().to_toml()
    changed = msgspec.structs.replace(m, persons=Persons(name="patient", weight_bits=9))
    assert changed.digest != m.digest  # it has more noise than it needs, and is another one
    with pytest.raises(PlanError, match="not give epsilon"):
        msgspec.structs.replace(m, persons=Persons(max_clients=3, weight_bits=9))


@pytest.mark.parametrize(
    ("name", "many", "a"),
    [
        ("patient", "patients", "a patient"),
        ("employee", "employees", "an employee"),
        ("family", "families", "a family"),
        ("key", "keys", "a key"),
        ("branch", "branches", "a branch"),
    ],
)
def test_what_several_are_called(name: str, many: str, a: str) -> None:
    assert Unit.called(name) == (name, many)
    assert Unit.called(name).a == a


@pytest.mark.parametrize("name", ["patients", "families", "employees", "branches", "days"])
def test_persons_are_named_by_what_one_is_called(name: str) -> None:
    with pytest.raises(PlanError, match=f"unit is '{name}'.*singular"):
        Persons.called(name)
    assert Persons(name=name).name == name


@pytest.mark.parametrize("name", ["patient", "boss", "bus", "basis", "canvas", "GPS", "s"])
def test_a_word_for_one_may_end_in_s(name: str) -> None:
    assert Persons.called(name, 3) == Persons(name=name, max_clients=3)


# Counts are of persons


@pytest.mark.usefixtures("repeatable_noise")
def test_without_noise_counts_are_persons_and_shares_of_persons() -> None:
    m = mechanism(LLOYD, d=1, n_clusters=2, persons=Persons(), estimate_loss=True)
    B = 2**16
    X: IntArray = np.array([[-B // 2]] * 6 + [[B // 2]] * 3 + [[-B // 2], [B // 2]], dtype=np.int64)
    ids = [b"a"] * 6 + [b"b", b"c", b"d"] + [b"e"] * 2
    found = cluster(m, SharedRecords.of_persons(m, X, ids), SeededNoise(0))
    assert sorted(found.noisy_counts(m.number_bits).tolist()) == [1.5, 3.5]
    assert sorted(found.centroids.ravel().tolist()) == [-B // 2, B // 2]
    assert found.loss == 0


# Central and federated
