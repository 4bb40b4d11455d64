"""Bounds and grid: what a record becomes depends on that record and on public settings, and on
nothing else.
"""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.base.compiling import is_compiled
from fastlloyd.base.sealed_toml import canonical
from fastlloyd.clustering.bound_checks import UNUSABLE_BOUNDS
from fastlloyd.clustering.domain import EXACT_BITS, Domain, Scaling
from fastlloyd.errors import DataError, PlanError

UGLY = [
    (0.1, 0.3),
    (-1e9, 1e-3),
    (-1e-3, 1e9),
    (1.6e9, 1.7e9),
    (-1e-300, 1e-300),
    (1 / 3, 2 / 3),
    (-7.0, 1e17),
    (2000.0, 2020.0),
]


def domain(
    *bounds: tuple[float, float], scaling: Scaling = Scaling.PER_FEATURE, q: int = 16
) -> Domain:
    lower, upper = zip(*bounds, strict=True)
    return Domain(
        features=tuple(f"f{i}" for i in range(len(bounds))),
        lower=lower,
        upper=upper,
        scaling=scaling,
        fraction_bits=q,
    )


def unit_cube(d: int, q: int = 16) -> Domain:
    return domain(*[(-1.0, 1.0)] * d, q=q)


@st.composite
def intervals(draw: st.DrawFn) -> tuple[float, float]:
    if draw(st.booleans()):
        return draw(st.sampled_from(UGLY))
    width = 10.0 ** draw(st.floats(-6, 6))
    low = draw(st.floats(-1000, 1000)) * width
    return low, low + width


@st.composite
def domains(draw: st.DrawFn) -> Domain:
    """Any domain; under common scaling the widths differ by less than the grid has units, or it
    would be refused.
    """
    bounds = draw(st.lists(intervals(), min_size=1, max_size=4))
    q, scaling = draw(st.integers(1, 24)), draw(st.sampled_from(Scaling))
    if scaling is Scaling.COMMON:
        widest = max(high - low for low, high in bounds)
        bounds = [(low, high) for low, high in bounds if (high - low) * 2**q > 1.01 * widest]
    return domain(*bounds, scaling=scaling, q=q)


# The grid


@given(domains(), st.integers(0, 2**32))
def test_every_grid_point_is_the_grid_point_of_its_own_original_value(
    domain: Domain, seed: int
) -> None:
    B = domain.half_widths
    inside = np.random.default_rng(seed).integers(-B, B + 1, (20, domain.n_features))
    points = np.vstack([inside, -B, B, np.zeros_like(B)])
    assert np.array_equal(domain.to_grid(domain.from_grid(points)), points)


def test_both_ends_of_every_feature_are_the_walls_of_the_grid() -> None:
    for q in (4, 16, 20):
        wide = domain((0.1, 0.3), (-1e9, 1e-3), (-5e8, 0.0), q=q)
        assert np.array_equal(
            wide.to_grid([wide.lower, wide.upper]), [-wide.half_widths, wide.half_widths]
        )
    # half width 10.5 units: both ends round to 10, for a wall at 11 could be reached from one side
    # only
    common = domain((0.0, 2.0**17), (0.0, 21.0), scaling=Scaling.COMMON)
    assert common.half_widths.tolist() == [2**16, 10]
    assert common.to_grid([common.lower, common.upper]).tolist() == [[-(2**16), -10], [2**16, 10]]


@given(domains(), st.integers(0, 2**32))
def test_the_grid_is_monotone_and_never_leaves_the_box(domain: Domain, seed: int) -> None:
    generator = np.random.default_rng(seed)
    low, width = np.array(domain.lower), np.array(domain.upper) - np.array(domain.lower)
    records = np.sort(low + width * generator.uniform(-0.5, 1.5, (50, domain.n_features)), axis=0)
    grid = domain.to_grid(records)
    assert grid.dtype == np.int32
    assert grid.flags.f_contiguous  # few features: each lies in one piece
    assert (np.diff(grid, axis=0) >= 0).all()
    assert (np.abs(grid) <= domain.half_widths).all()


@given(st.lists(st.integers(-(2**24), 2**24), min_size=1, max_size=30))
def test_on_dyadic_bounds_the_grid_is_the_exact_rational_rounding_half_up(
    numerators: list[int],
) -> None:
    # values on a grid of 2**-20, of which every 16th lies halfway between two grid points
    records = [[n / 2**20] for n in numerators]
    exact = [
        math.floor(Fraction(max(-(2**20), min(2**20, n)), 2**20) * 2**16 + Fraction(1, 2))
        for n in numerators
    ]
    assert unit_cube(1).to_grid(records)[:, 0].tolist() == exact


@given(domains(), st.integers(0, 2**32))
def test_the_grid_is_the_rational_rounding_but_for_ties_within_float_precision(
    domain: Domain, seed: int
) -> None:
    widths = [Fraction(b) - Fraction(a) for a, b in zip(domain.lower, domain.upper, strict=True)]
    records = np.array(domain.lower) + np.random.default_rng(seed).uniform(
        0, 1, (10, domain.n_features)
    ) * np.array([float(w) for w in widths])
    half_widths = domain.half_widths.tolist()
    for record, point in zip(records, domain.to_grid(records), strict=True):
        for x, g, a, width, B in zip(
            record.tolist(), point.tolist(), domain.lower, widths, half_widths, strict=True
        ):
            unit = (width if domain.scaling is Scaling.PER_FEATURE else max(widths)) / (
                2 << domain.fraction_bits
            )
            steps = (Fraction(x) - Fraction(a) - width / 2) / unit
            assert abs(g) <= B
            assert abs(steps) > B or abs(int(g) - steps) <= Fraction(1, 2) + Fraction(1, 1000)


@pytest.mark.parametrize("scaling", list(Scaling))
def test_equal_real_values_of_any_type_and_memory_order_become_equal_grid_points(
    scaling: Scaling,
) -> None:
    box = domain((-8.0, 8.0), (-3.0, 5.0), (-100.0, 50.0), scaling=scaling)
    values = np.random.default_rng(3).integers(-50, 50, (40, 3)).astype(np.float64) / 8
    expected = box.to_grid(values)
    for dtype in ("<f2", ">f2", "<f4", ">f4", ">f8", np.longdouble):
        assert np.array_equal(box.to_grid(values.astype(dtype)), expected)
    strided = np.zeros((80, 6))
    strided[::2, ::2] = values
    for same in (
        np.asfortranarray(values),
        strided[::2, ::2],
        values[::-1][::-1],
        values.tolist(),
        values.astype(object),
    ):
        assert np.array_equal(box.to_grid(same), expected)
    whole = np.floor(values)
    for kind in ("<i2", ">i8", "i1", "i4", "f2"):
        assert np.array_equal(box.to_grid(whole.astype(kind)), box.to_grid(whole))
    assert np.array_equal(box.to_grid(np.abs(whole).astype(np.uint16)), box.to_grid(np.abs(whole)))
    assert np.array_equal(box.to_grid(whole > 0), box.to_grid((whole > 0).astype(float)))
    mixed: Any = [[Fraction(1, 3), Decimal("0.1"), 7]]
    assert np.array_equal(box.to_grid(mixed), box.to_grid([[1 / 3, 0.1, 7.0]]))


def test_values_outside_the_bounds_are_clipped() -> None:
    box = domain((0.0, 10.0), (-1.0, 1.0))
    records = [[-1e308, 0.0], [10.0, 1.0], [10.0000001, 0.5], [5.0, -7.0], [11.0, 7.0], [0.0, -1.0]]
    assert (
        box.to_grid(records).tolist()
        == box.to_grid(np.clip(records, box.lower, box.upper)).tolist()
    )
    assert box.to_grid(np.zeros((0, 2))).shape == (0, 2)


@given(st.integers(0, 2**32), st.integers(-(10**6), 10**6))
def test_w21_an_outlier_changes_no_other_record(seed: int, outlier: int) -> None:
    # Bounds taken from all records would have moved the sum of the other 1,000 by 1,278 where 1.41
    # was claimed.
    box = unit_cube(2)
    records = np.random.default_rng(seed).uniform(-1, 1, (50, 2))
    assert np.array_equal(
        box.to_grid(np.vstack([records, [[float(outlier), 0.5]]]))[:-1], box.to_grid(records)
    )


# What is refused


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@given(row=st.integers(0, 9), column=st.integers(0, 2), secret=st.floats(1e3, 1e4))
def test_w22_a_record_that_is_not_finite_is_named_by_row_and_feature_without_any_value(
    bad: float, row: int, column: int, secret: float
) -> None:
    box = domain((0.0, 1.0), (0.0, 2.0), (0.0, 4.0))
    records = np.full((10, 3), secret)
    records[row, column] = bad
    with pytest.raises(DataError, match=f"^record {row},.*'f{column}'.*NaN") as caught:
        box.to_grid(records)
    assert str(secret)[:5] not in str(caught.value)


@pytest.mark.parametrize("shape", [(), (3,), (4, 2), (4, 4), (2, 3, 1), (3, 0)])
def test_w22_a_table_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"expected \(n_records, 3\)"):
        domain((0.0, 1.0), (0.0, 2.0), (0.0, 4.0)).to_grid(np.zeros(shape))


@pytest.mark.parametrize(
    "table",
    [
        [["1.5"]],
        [[b"1"]],
        [["secret"]],
        np.array([["secret"]], dtype=object),
        [[1 + 2j]],
        np.array([[1 + 2j]], dtype=object),
        np.array([["2020-01-01"]], dtype="datetime64[D]"),
        np.array([[3]], dtype="timedelta64[s]"),
        [[1.0], [1.0, 2.0]],
        {"a": [1.0]},
        np.ma.MaskedArray([[0.5], [0.25]], mask=[[True], [False]]),
    ],
    ids=lambda table: type(table).__name__,
)
def test_w22_what_is_not_a_table_of_real_numbers_is_refused_and_not_converted(table: Any) -> None:
    with pytest.raises(DataError, match="table of records") as caught:
        unit_cube(1).to_grid(table)
    assert caught.value.code in (
        *("text", "bytes", "complex", "dates", "ragged", "groups", "missing"),
    )
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_w22_an_integer_that_float64_cannot_hold_counts_as_infinite() -> None:
    huge: Any
    for huge in (10**400, -(10**400), Decimal("1e400")):
        with pytest.raises(DataError, match=r"record 1,.*'f0'.*NaN"):
            unit_cube(1).to_grid([[0.5], [huge]])


def test_w22_what_only_a_wider_float_could_hold_counts_as_infinite() -> None:
    if np.finfo(np.longdouble).maxexp <= 1024:
        pytest.skip("no wider float on this machine")
    wide = np.array([[0.5], [2.0]], dtype=np.longdouble)
    wide[1] **= 2000
    with pytest.raises(DataError, match=r"record 1,.*'f0'.*NaN"):
        unit_cube(1).to_grid(wide)


@pytest.mark.parametrize(
    ("low", "high", "reason"),
    [
        (1.0, 0.0, "reversed"),
        (0.5, 0.5, "equal"),
        (0.0, -0.0, "equal"),
        (math.nan, 1.0, "finite"),
        (0.0, math.inf, "finite"),
        (-math.inf, math.inf, "finite"),
        (-1.7e308, 1.7e308, "too wide or too narrow"),
        (0.0, 1e-301, "too wide or too narrow"),
        (0.0, 1e301, "too wide or too narrow"),
        (-1e301, -1e300, "too wide or too narrow"),
        (1e9, 1e9 + 1e-3, "too close together for numbers of this size.*subtract a constant"),
        (-1e300, -1e300 + 1e289, "too close together for numbers of this size"),
        (5_412_000.0, 5_412_000.0001, "too close together for numbers of this size"),
    ],
)
def test_bounds_without_a_usable_width_are_refused_by_name(
    low: float, high: float, reason: str
) -> None:
    with pytest.raises(PlanError, match=rf"feature 'f1'.*{reason}") as refused:
        domain((0.0, 1.0), (low, high))
    assert (refused.value.code, refused.value.field) == (UNUSABLE_BOUNDS, "f1")


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (5_412_000.0, 5_412_500.0),  # 500 m of northing
        (1.7e9, 1.7e9 + 86_400),  # a day of Unix seconds
        (1.7e12, 1.7e12 + 86_400_000),  # in milliseconds
        (-180.0, -179.999),
        (101_300.0, 101_350.0),  # pascals
    ],
)
@pytest.mark.parametrize("scaling", Scaling)
def test_a_narrow_field_far_away_is_as_good_as_one_at_zero(
    low: float, high: float, scaling: Scaling
) -> None:
    far = Domain(features=("a",), lower=(low,), upper=(high,), scaling=scaling)
    near = Domain(features=("a",), lower=(0.0,), upper=(high - low,), scaling=scaling)
    values = low + np.linspace(0, high - low, 1000)[:, None]
    assert np.array_equal(far.to_grid(values), near.to_grid(values - low))


@given(
    low=st.floats(-1e12, 1e12),
    width=st.floats(2.0**-60, 1.0),
    bits=st.integers(1, 24),
    data=st.data(),
)
def test_every_grid_point_of_accepted_bounds_comes_back_from_original_units(
    low: float, width: float, bits: int, data: st.DataObject
) -> None:
    """From the narrowest bounds that are accepted, refused a little below, to wider ones."""
    size = max(math.ulp(low) * 2 ** (bits + 3) * width * 4, 1e-12)
    high = low + size
    ends: dict[str, Any] = {"features": ("a",), "lower": (low,), "upper": (high,)}
    if high - low < 2 ** (bits + 2) * math.ulp(max(abs(low), abs(high))):
        with pytest.raises(PlanError) as refused:
            Domain(**ends, fraction_bits=bits)
        assert refused.value.code == UNUSABLE_BOUNDS
        return
    domain = Domain(**ends, fraction_bits=bits)
    B = 1 << bits
    points = data.draw(st.lists(st.integers(-B, B) | st.sampled_from([-B, B]), min_size=1))
    grid = np.array(points, dtype=np.int64)[:, None]
    assert np.array_equal(domain.to_grid(domain.from_grid(grid)), grid)


def test_features_need_names_of_their_own_and_a_pair_of_bounds_each() -> None:
    with pytest.raises(PlanError, match="no features"):
        Domain(features=(), lower=(), upper=())
    with pytest.raises(PlanError, match=r"'b'.*named twice"):
        Domain(features=("a", "b", "b"), lower=(0.0,) * 3, upper=(1.0,) * 3)
    with pytest.raises(PlanError, match=r"2 lower.*1 upper"):
        Domain(features=("a", "b"), lower=(0.0, 0.0), upper=(1.0,))


@pytest.mark.parametrize(
    "name", ["two\nlines", "\x1b[2Jcleared", "\ud800", "\u202e", "x" * 201, "\x00"]
)
def test_a_name_that_could_rewrite_what_people_read_is_refused(name: str) -> None:
    with pytest.raises(PlanError, match=r"feature name.*not usable"):
        Domain(features=(name,), lower=(0.0,), upper=(1.0,))


def test_a_feature_too_narrow_for_the_common_grid_is_refused_by_name() -> None:
    with pytest.raises(PlanError, match="'f0' is narrower"):
        domain((0.1, 0.3), (-1e9, 1e-3), scaling=Scaling.COMMON)
    assert domain((0.1, 0.3), (-1e9, 1e-3), scaling=Scaling.PER_FEATURE).half_widths.tolist() == [
        2**16,
        2**16,
    ]


# Sizes


@given(domains())
def test_half_widths_are_the_widths_in_units_of_the_widest(domain: Domain) -> None:
    B, widths = (
        2**domain.fraction_bits,
        [Fraction(b - a) for a, b in zip(domain.lower, domain.upper, strict=True)],
    )
    for half, width in zip(domain.half_widths.tolist(), widths, strict=True):
        share = Fraction(1) if domain.scaling is Scaling.PER_FEATURE else width / max(widths)
        assert abs(half - share * B) <= Fraction(1, 2)
        assert 1 <= half <= B
    assert domain.squared_half_diagonal == sum(half**2 for half in domain.half_widths.tolist())


@pytest.mark.parametrize("d", [1, 2, 3, 7, 64, 1024, 5000])
def test_squared_distances_stay_exact_at_the_finest_grid_and_one_bit_more_is_refused(
    d: int,
) -> None:
    with pytest.raises(PlanError, match=r"use fraction_bits \d+") as caught:
        unit_cube(d, 32)
    finest = int(str(caught.value).split("fraction_bits ")[-1].split()[0])
    for q in (1, 8, finest):
        box = unit_cube(d, q)
        c = box.saturation
        assert c >= 2**q
        assert c & (c - 1) == 0
        assert d * (2**q + c) ** 2 < 2**EXACT_BITS <= d * (2**q + 2 * c) ** 2
    with pytest.raises(PlanError, match=f"use fraction_bits {finest}"):
        unit_cube(d, finest + 1)


@pytest.mark.parametrize("q", [0, -1, 33, 1000])
def test_fraction_bits_outside_one_to_thirty_two_are_refused(q: int) -> None:
    with pytest.raises(PlanError, match=f"{q}; expected 1"):
        unit_cube(1, q)


def test_bounds_given_as_integers_or_numpy_numbers_make_the_same_document() -> None:
    spelled: list[tuple[Any, Any]] = [
        (0, 10),
        (np.float64(0), np.float64(10)),
        (np.int64(0), np.int64(10)),
        (0.0, 10.0),
    ]
    made = [Domain(features=("a",), lower=(low,), upper=(high,)) for low, high in spelled]
    assert len({canonical(one) for one in made}) == 1
    assert all(type(one.lower[0]) is float for one in made)


@settings(max_examples=30)
@given(domains())
def test_units_and_centre_are_those_of_the_original_bounds(domain: Domain) -> None:
    widths = np.array(domain.upper) - np.array(domain.lower)
    assert np.allclose(
        domain.centre, np.array(domain.lower) / 2 + np.array(domain.upper) / 2, rtol=1e-12, atol=0
    ) or np.allclose(domain.centre, np.array(domain.lower) + widths / 2)
    largest = widths.max() if domain.scaling is Scaling.COMMON else widths
    assert np.allclose(domain.units * 2 ** (domain.fraction_bits + 1), largest, rtol=1e-15)
    assert np.allclose(
        domain.from_grid(np.zeros((1, domain.n_features), dtype=np.int64)), domain.centre
    )


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("scaling", Scaling)
def test_a_single_coordinate_beyond_the_box_is_no_grid_point(
    scaling: Scaling, order: Any, kind: type, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled and not is_compiled(1 << 40):
        pytest.skip("there is no compiled code")
    monkeypatch.setattr("fastlloyd.clustering.domain.is_compiled", lambda _: compiled)
    box = domain((-1.0, 1.0), (0.0, 1.0), (-3.0, 5.0), scaling=scaling, q=8)
    B = box.half_widths
    corners: npt.NDArray[Any] = np.array([B, -B, 0 * B, B, -B], dtype=kind, order=order)
    box.check_grid(corners)
    box.check_grid(corners[:0])
    for place in np.ndindex(corners.shape):
        for beyond in (B[place[1]] + 1, -B[place[1]] - 1):
            moved = corners.copy(order="K")
            moved[place] = beyond
            with pytest.raises(DataError, match=r"a record.*outside"):
                box.check_grid(moved)
