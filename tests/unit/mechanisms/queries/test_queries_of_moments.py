"""What the questions promise is attained; ends of the box, ties, subspaces, and settings that are
refused.
"""

from fractions import Fraction

import numpy as np
import pytest

import moment_situations as situations
import query_reference as reference
from fastlloyd.base.compiling import WORTH_LOADING, is_compiled
from fastlloyd.clustering import kernels
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.accountant import Accountant
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import DataError, OverflowRisk, PlanError
from fastlloyd.mechanisms.queries.centred import ClippedLengths, ClippedSquares, SecondMoment
from fastlloyd.mechanisms.queries.nearest import ClippedOffsets, Votes
from fastlloyd.mechanisms.queries.parameters import Parameter, Value
from fastlloyd.mechanisms.queries.query import MAX_BLOCK_RECORDS, Query, Question, ask
from fastlloyd.mechanisms.queries.spaces import Features, Subspace
from fastlloyd.mechanisms.rounds import draw
from fastlloyd.testing import SeededNoise

U = 2**12
PLANE = situations.cube(2, 16)
ADDED, REPLACED = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
EAST, WEST, NORTH = [[1000, 0]], [[-1000, 0]], [[0, 1000]]
ORIGIN: dict[str, Value] = {"centre": np.zeros(2, dtype=np.int64), "radius": 1000}
AXES = np.array([[situations.ONE, 0], [0, situations.ONE]])
OFFSETS = ClippedOffsets(space=Features(domain=PLANE), n_clusters=2, units=U, count_bits=3)
AT: dict[str, Value] = {"centroids": np.array([[0, 0], [9000, 9000]]), "radius": 1000}


def moved(query: Query, before: list[list[int]], after: list[list[int]]) -> list[int]:
    """The squared change of each part."""
    one, other = (np.array(records, dtype=np.int64).reshape(-1, 2) for records in (before, after))
    change = query.evaluate(other) - query.evaluate(one)
    return [sum(v * v for v in part) for part in situations.by_part(query.question, change)]


@pytest.mark.parametrize(
    ("question", "values", "first", "second"),
    [
        (ClippedSquares(domain=PLANE, units=U), ORIGIN, EAST, NORTH),
        (ClippedLengths(domain=PLANE, units=U), ORIGIN, EAST, [[0, 0]]),
        (
            Votes(space=Features(domain=PLANE), n_candidates=2),
            {"candidates": AT["centroids"]},
            EAST,
            [[9000, 8000]],
        ),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "parts") else "",
)
def test_the_stated_sensitivity_is_attained(
    question: Question, values: dict[str, Value], first: list[list[int]], second: list[list[int]]
) -> None:
    query = ask(question, **values)
    far = [[10_000, 10_000]]
    assert tuple(moved(query, far, far + first)) == question.sensitivity.added[0]
    assert tuple(moved(query, far + first, second + far)) == question.sensitivity.replaced[0]


def test_both_corners_of_a_replacement_among_clusters_are_attained() -> None:
    query = ask(OFFSETS, **AT)
    assert tuple(moved(query, EAST, WEST)) == OFFSETS.sensitivity.replaced[0] == (4 * U**2, 0)
    assert (
        tuple(moved(query, EAST, [[9000, 8000]]))
        == OFFSETS.sensitivity.replaced[1]
        == (2 * U**2, 2 * 8**2)
    )
    assert tuple(moved(query, EAST, EAST + WEST)) == OFFSETS.sensitivity.added[0] == (U**2, 8**2)


def test_with_one_centroid_offsets_are_the_clipped_sum_and_the_number_of_records() -> None:
    alone = ClippedOffsets(space=Features(domain=PLANE), n_clusters=1, units=U)
    assert alone.sensitivity.replaced == ((4 * U**2, 0),)
    X = situations.records(PLANE, 50, np.random.default_rng(1))
    total = np.sum([reference.clip(z, 1000, U) for z in X.tolist()], axis=0)
    both = ask(alone, centroids=np.zeros((1, 2), dtype=np.int64), radius=1000).evaluate(X)
    assert both.tolist() == [[*total.tolist(), 50]]


def test_the_second_moment_is_the_upper_triangle_and_costs_the_fourth_power_of_the_radius() -> None:
    domain = situations.cube(3, 16)
    question = SecondMoment(domain=domain, units=4)
    query = ask(question, centre=np.zeros(3, dtype=np.int64), radius=4)
    assert query.evaluate(np.array([[1, -2, 3], [1, 1, 0]])).tolist() == [[2, 5, 9, -1, 3, -6]]
    stated = question.sensitivity
    s = Fraction(100)
    for above in (Fraction(71), s):  # s / sqrt(2) above the diagonal is enough
        assert (
            sum(r.mu_squared for r in stated.gaussian_releases([s, above], ADDED))
            == Fraction(4**4) / s**2
        )
        assert (
            sum(r.mu_squared for r in stated.gaussian_releases([s, above], REPLACED))
            == 2 * Fraction(4**4) / s**2
        )
    assert (
        sum(r.mu_squared for r in stated.gaussian_releases([s, s / 2], ADDED))
        == Fraction(2 * 4**4) / s**2
    )


def test_the_bounds_of_the_second_moment_are_as_tight_as_they_can_be() -> None:
    fine = ask(SecondMoment(domain=PLANE, units=2**16), **ORIGIN)
    assert moved(fine, [], EAST)[0] == 2**64 == fine.question.sensitivity.added[0][0]
    diagonal = fine.evaluate(np.array([[50_000, 50_000]]))
    assert 0.9999 * 2**31 < diagonal[0, 2] <= fine.question.sensitivity.entries[1] == 2**31


@pytest.mark.parametrize("d", [1, 2, 784])
@pytest.mark.parametrize("radius", ["least", "most"])
def test_records_and_centres_at_opposite_ends_of_the_box(d: int, radius: str) -> None:
    domain = situations.cube(d, {1: 25, 2: 23, 784: 18}[d])
    B = domain.half_widths
    X = np.vstack([B, -B, np.zeros_like(B), B - 1]).astype(np.int64)
    V = np.zeros((d, 1), dtype=np.int64)
    V[0] = -situations.ONE
    for question in situations.questions(
        domain, units=2**16 if d < 784 else 256, count_bits=32, k=2
    ):
        if d == 784 and isinstance(question, SecondMoment):
            continue  # 307,720 entries in Python; the next test looks at some
        ends = {"centre": -B, "origin": -B, "directions": np.tile(V, 3 if d > 2 else d)}
        for parameter in question.parameters:
            if parameter.name in ("centroids", "candidates"):
                ends[parameter.name] = np.vstack([parameter.most, -parameter.most])
            elif parameter.name not in ends and parameter.shape:
                ends[parameter.name] = np.full(
                    parameter.shape, getattr(parameter, radius), dtype=np.int64
                )
        values = {p.name: ends.get(p.name, getattr(p, radius)) for p in question.parameters}
        query = ask(question, **values)
        assert query.evaluate(X).tolist() == situations.expected(query, X)


def test_a_second_moment_of_784_features_in_blocks_is_the_product_of_the_clipped_records() -> None:
    domain = situations.cube(784, 19)
    X = np.random.default_rng(3).integers(-(2**19), 2**19 + 1, (1200, 784))
    radius, centre = 2**22, domain.half_widths
    answer = ask(SecondMoment(domain=domain, units=2**16), centre=centre, radius=radius).evaluate(X)
    Z = X - centre
    lengths = np.maximum(radius, np.ceil(np.sqrt((Z * Z).sum(axis=1))).astype(np.int64))
    clipped = np.sign(Z) * (np.abs(Z) * 2**16 // lengths[:, None])  # int64 throughout
    for i, j, place in [
        (0, 0, 0),
        (783, 783, 783),
        (0, 1, 784),
        (0, 783, 784 + 782),
        (782, 783, 307_719),
    ]:
        assert answer[0, place] == int((clipped[:, i] * clipped[:, j]).sum())
    assert int(answer[0, :784].sum()) == int((clipped * clipped).sum())


def test_ties_go_to_the_lowest_index_also_among_coincident_and_padded_points() -> None:
    candidates = np.array([[5, 0], [-5, 0], [5, 0], [-5, 0]])
    votes = ask(Votes(space=Features(domain=PLANE), n_candidates=4), candidates=candidates)
    assert votes.evaluate(np.array([[0, 7], [0, -7], [4, 0], [-6, 0]])).tolist() == [
        [3],
        [1],
        [0],
        [0],
    ]
    nowhere = Subspace(domain=PLANE, n_directions=2)
    frame: dict[str, Value] = {
        "origin": np.array([3, 4]),
        "directions": np.zeros((2, 2), dtype=np.int64),
    }
    all_at_zero = ask(
        Votes(space=nowhere, n_candidates=3), candidates=np.zeros((3, 2), dtype=np.int64), **frame
    )
    assert all_at_zero.evaluate(np.array([[1, 2], [3, 4]])).tolist() == [[2], [0], [0]]


def test_a_record_at_its_centroid_counts_and_adds_nothing() -> None:
    assert ask(OFFSETS, **AT).evaluate(np.array([[9000, 9000]])).tolist() == [[0, 0, 0], [0, 0, 8]]


def test_no_records_give_zeros_of_the_right_shape() -> None:
    for question in situations.questions(PLANE, units=U, count_bits=3, k=3):
        query = situations.query(question, np.random.default_rng(0))
        assert (
            query.evaluate(np.zeros((0, 2), dtype=np.int32)).tolist()
            == np.zeros(question.shape).tolist()
        )


def test_the_axes_as_directions_leave_the_records_as_they_are_relative_to_the_origin() -> None:
    X = situations.records(PLANE, 40, np.random.default_rng(4))
    space = Subspace(domain=PLANE, n_directions=2)
    origin = np.array([100, -7])
    assert space.place(X, origin=origin, directions=AXES).tolist() == (X - origin).tolist()


def test_points_of_a_subspace_are_rounded_towards_zero() -> None:
    line = Subspace(domain=PLANE, n_directions=1)
    third = np.array([[situations.ONE // 3], [0]])
    X = np.array([[5, 0], [-5, 0], [3, 0], [-3, 0]])
    assert line.place(X, origin=np.zeros(2, dtype=np.int64), directions=third).ravel().tolist() == [
        1,
        -1,
        0,
        0,
    ]


def test_no_point_of_a_subspace_lies_beyond_its_limits() -> None:
    for domain in situations.DOMAINS[1:]:
        d, r = domain.n_features, min(domain.n_features, 3)
        space = Subspace(domain=domain, n_directions=r)
        B = domain.half_widths
        V = np.tile(
            np.trunc(B / np.linalg.norm(B) * situations.ONE).astype(np.int64)[:, None], (1, r)
        )
        (farthest,) = space.place(B[None], origin=-B, directions=V).tolist()
        assert all(
            limit * (1 - d / 2**15) - 1 <= y <= limit
            for y, limit in zip(farthest, space.limits.tolist(), strict=True)
        )


def test_a_subspace_whose_distances_would_not_be_exact_is_refused() -> None:
    Subspace(domain=situations.cube(2, 23), n_directions=2)
    with pytest.raises(PlanError, match=r"fraction_bits 24.*2 directions"):
        Subspace(domain=situations.cube(2, 24), n_directions=2)
    for n_directions in (0, 3, True, 1.0):
        with pytest.raises(PlanError, match=r"n_directions is.*1 to"):
            # one of them
            Subspace(domain=PLANE, n_directions=n_directions)  # type: ignore[arg-type]


def test_a_direction_longer_than_one_is_refused() -> None:
    votes = Votes(space=Subspace(domain=PLANE, n_directions=2), n_candidates=1)
    values: dict[str, Value] = {
        "candidates": np.zeros((1, 2), dtype=np.int64),
        "origin": np.zeros(2, dtype=np.int64),
    }
    ask(votes, directions=AXES, **values)
    with pytest.raises(OverflowRisk, match=r"parameter directions.*norm"):
        ask(votes, directions=AXES + np.array([[0, 1], [0, 0]]), **values)


def test_whoever_made_the_parameters_cannot_change_them_afterwards() -> None:
    centre = np.zeros(2, dtype=np.int64)
    query = ask(ClippedSquares(domain=PLANE, units=U), centre=centre, radius=1000)
    centre[:] = 2**62
    assert query.evaluate(np.array(EAST)).tolist() == [[U**2, 0]]


def test_more_records_at_once_than_an_answer_surely_holds_are_refused() -> None:
    X = np.broadcast_to(np.zeros((1, 2), dtype=np.int32), (MAX_BLOCK_RECORDS + 1, 2))
    with pytest.raises(DataError, match="pass smaller blocks"):
        ask(ClippedLengths(domain=PLANE, units=U), **ORIGIN).evaluate(X)
    for question in situations.questions(PLANE, units=2**16, count_bits=32, k=2):
        assert max(question.sensitivity.entries) * MAX_BLOCK_RECORDS <= 2**62


@pytest.mark.parametrize(
    ("n", "count_bits"), [(0, 0), (2**16 + 1, 0), (True, 0), (3, -1), (3, 33), (3, 1.0)]
)
def test_counts_out_of_range_are_refused(n: int, count_bits: int) -> None:
    space = Features(domain=PLANE)
    with pytest.raises(PlanError, match="expected"):
        Votes(space=space, n_candidates=n, count_bits=count_bits)
    with pytest.raises(PlanError, match="expected"):
        ClippedOffsets(space=space, n_clusters=n, count_bits=count_bits, units=U)


def test_the_length_of_the_parameters_follows_from_the_question() -> None:
    assert [p.size for p in OFFSETS.parameters] == [4, 1]
    assert Parameter(name="directions", shape=(784, 12), least=0, most=0).size == 9408


@pytest.mark.parametrize("d", [1, 3])
def test_noise_is_drawn_part_by_part_and_the_accountant_takes_the_releases(d: int) -> None:
    for question in situations.questions(situations.cube(d, 8), units=64, count_bits=2, k=3):
        scales = [Fraction(1000 + part) for part in range(len(question.parts))]
        noise = draw(
            Noise.GAUSSIAN,
            question.shape[0],
            zip(question.parts, scales, strict=True),
            SeededNoise(1),
        )
        assert noise.shape == question.shape
        stated, variances = question.sensitivity, [scale**2 for scale in scales]
        assert len(stated.entries) == len(question.parts)
        for relation in NeighboringRelation:
            cost = (
                Accountant(relation).compose(stated.gaussian_releases(scales, relation)).mu_squared
            )
            assert cost == max(
                sum(Fraction(a) / v for a, v in zip(corner, variances, strict=True))
                for corner in stated.corners(relation)
            )


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "domain",
    situations.DOMAINS[1:],
    ids=lambda domain: f"{domain.n_features}-{domain.fraction_bits}",
)
def test_compiled_code_finds_the_same_nearest_points_also_where_its_keys_would_not_be_exact(
    compiled: bool, domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled and not is_compiled(WORTH_LOADING):
        pytest.skip("there is no compiled code")
    monkeypatch.setattr(kernels, "is_compiled", lambda _: compiled)
    generator = np.random.default_rng(6)
    X = situations.records(domain, 30, generator)
    for _ in range(8):
        for question in situations.questions(domain, units=2**16, count_bits=0, k=9)[4:]:
            query = situations.query(question, generator)
            assert query.evaluate(X.astype(np.int32)).tolist() == situations.expected(query, X)
