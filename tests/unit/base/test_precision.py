import ast
import math
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import mpmath
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import fastlloyd
from designs import design_mechanism, design_plan
from fastlloyd.base import precision
from fastlloyd.base.precision import (
    delta_down,
    delta_up,
    epsilon_up,
    exact,
    fifty_decimals,
    greatest_float,
    least_float,
    round_up,
    working_precision,
)
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.noise import Noise, SystemNoise
from fastlloyd.federation.plan.plan import Client, TrustMode
from fastlloyd.mechanisms.catalogue import ALGORITHMS
from fastlloyd.mechanisms.settings import AnyAlgorithm
from fastlloyd.reports.statement import mechanism_statement, plan_statement

POSITIVE = st.floats(min_value=0, allow_infinity=False, allow_nan=False)


@given(POSITIVE, st.none() | st.floats())
@example(0.0, -0.0)
def test_least_and_greatest_float_find_every_float_exactly_wherever_they_begin(
    threshold: float, near: float | None
) -> None:
    assert least_float(lambda x: x >= threshold, near) == threshold
    assert greatest_float(lambda x: x <= threshold, near) == threshold


@given(st.floats(1e-300, 1e300), st.integers(0, 30))
def test_a_guess_near_the_float_takes_few_questions(threshold: float, log2_off: int) -> None:
    asked: list[float] = []

    def holds(x: float) -> bool:
        asked.append(x)
        return x >= threshold

    assert least_float(holds, threshold * (1 + 2.0 ** (log2_off - 52))) == threshold
    assert (
        len(asked) <= 2 * log2_off + 5
    )  # up to 2^(log2_off + 1) floats away: so many doublings, and halvings


@given(st.floats(0, 1, exclude_max=True))
def test_a_delta_is_shown_on_the_side_that_is_asked_for_and_below_1(delta: float) -> None:
    assert delta <= float(delta_up(delta)) < 1
    assert float(delta_down(delta)) <= delta
    assert math.isclose(float(delta_up(delta)), delta, rel_tol=1e-5, abs_tol=1e-307)
    assert math.isclose(float(delta_down(delta)), delta, rel_tol=1e-5, abs_tol=1e-307)


@pytest.mark.parametrize(
    ("delta", "up", "down"),
    [
        (0.0, "0", "0"),
        (-0.0, "0", "0"),
        (1e-5, "1e-05", "1e-05"),
        (0.1, "0.1", "0.1"),
        (1 / 12300, "8.13009e-05", "8.13008e-05"),
        (0.999999, "0.999999", "0.999999"),
        (0.99999951, "0.99999951", "0.999999"),
        (math.nextafter(1, 0), "0.9999999999999999", "0.999999"),
    ],
)
def test_a_delta_as_people_write_it_is_shown_so(delta: float, up: str, down: str) -> None:
    assert (delta_up(delta), delta_down(delta)) == (up, down)


@pytest.mark.parametrize(
    ("epsilon", "up"),
    [
        (1.0, "1"),
        (0.1, "0.1"),
        (1.2345644, "1.23457"),
        (2.0000001, "2.00001"),
        (0.999999999, "1"),
        (1234567.0, "1.23457e+06"),
    ],
)
def test_a_stated_epsilon_is_shown_as_it_was_written_or_a_little_larger(
    epsilon: float, up: str
) -> None:
    assert epsilon_up(epsilon) == up


def test_least_float_is_infinite_where_no_float_suffices() -> None:
    assert least_float(lambda _: False) == math.inf


@given(st.fractions(min_value=0, max_value=10**30), st.integers(-1200, 900))
def test_round_up_is_the_least_float_not_below(fraction: Fraction, exponent: int) -> None:
    with working_precision(300) as mp:
        value = mp.ldexp(exact(mp, fraction), exponent)
        rounded = round_up(value)
        assert rounded >= value
        assert rounded == 0 or math.nextafter(rounded, -math.inf) < value


def test_the_global_mpmath_context_is_neither_read_nor_changed() -> None:
    before = mpmath.mp.prec
    with mpmath.workprec(20), working_precision(300) as mp:
        assert mpmath.mp.prec == 20
        assert abs(mp.sqrt(mp.mpf(2)) ** 2 - 2) < mp.ldexp(1, -290)
    assert mpmath.mp.prec == before


@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**30))
def test_decimals_have_fifty_digits_and_only_within(value: Fraction) -> None:
    with working_precision(400) as mp, fifty_decimals() as digits:
        rounded = exact(digits, value)
        assert digits.floor(rounded) == math.floor(Fraction(rounded))
        assert digits.ceil(rounded) == math.ceil(Fraction(rounded))
        for name in ("sqrt", "cbrt"):
            found, expected = getattr(digits, name)(rounded), getattr(mp, name)(exact(mp, value))
            assert abs(exact(mp, Fraction(found)) - expected) <= expected * mp.mpf(10) ** -48, name
    assert Decimal(1) / 3 == Decimal("0." + 28 * "3")


def test_a_block_inside_another_restores_its_precision() -> None:
    with working_precision(100) as outer:
        with working_precision(400) as inner:
            assert inner.prec == 400
        assert outer.prec == 100


def test_threads_do_not_disturb_one_another() -> None:
    def root_error(bits: int) -> float:
        with working_precision(bits) as mp:
            return float(mp.ldexp(abs(mp.sqrt(mp.mpf(2)) ** 2 - 2), bits))

    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(root_error, [60 + 7 * i for i in range(200)])) < 8


# One thread at a time


SOURCES = Path(fastlloyd.__file__).parent
NODES = cache(
    lambda: {path: list(ast.walk(ast.parse(path.read_text()))) for path in SOURCES.rglob("*.py")}
)


def test_mpmath_is_imported_in_one_place_only() -> None:
    importing = {
        source.relative_to(SOURCES).as_posix()
        for source, nodes in NODES().items()
        for node in nodes
        if (
            isinstance(node, ast.Import)
            and any(name.name.split(".")[0] == "mpmath" for name in node.names)
        )
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "mpmath")
    }
    assert importing == {"base/precision.py"}


def test_the_context_is_taken_in_a_with_statement_wherever_it_is_taken() -> None:
    # or handed on by a function that does nothing else, and is named here
    handing_on = {"working_precision", "fifty_digits", "fifty_decimals"}
    for source, nodes in NODES().items():
        entered = {
            id(item.context_expr)
            for node in nodes
            if isinstance(node, ast.With)
            for item in node.items
        }
        within = {
            id(call)
            for function in nodes
            if isinstance(function, ast.FunctionDef) and function.name in handing_on
            for call in ast.walk(function)
        }
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                assert name not in handing_on or id(node) in entered | within, (
                    f"{source}, line {node.lineno}"
                )


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """Counts operations on mpmath's numbers in this thread: with the lock held, and without."""
    counts: Counter[bool] = Counter()

    def watch(operation: Callable[..., object]) -> Callable[..., object]:
        def watched(*arguments: object) -> object:
            counts[precision._SHARED.one_thread._is_owned()] += 1
            return operation(*arguments)

        return watched

    number = mpmath.ctx_mp_python._mpf
    names = (
        "add",
        "radd",
        "sub",
        "rsub",
        "mul",
        "rmul",
        "truediv",
        "rtruediv",
        "pow",
        "rpow",
        "neg",
        "lt",
        "le",
        "gt",
        "ge",
    )
    for name in (*(f"__{name}__" for name in names), "__int__", "__float__"):
        monkeypatch.setattr(number, name, watch(getattr(number, name)))
    return counts


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=str)
def test_no_number_of_mpmaths_is_touched_without_the_lock(
    algorithm: AnyAlgorithm, guarded: Counter[bool]
) -> None:
    # a plan from its design to its statement, and noise from either law
    domain = Domain(
        features=("x", "y", "z"), lower=(0.0, 0.0, 0.0), upper=(1.0, 2.0, 37.0), fraction_bits=11
    )
    settings: dict[str, Any] = {
        "n_clusters": 3,
        "n_records": 977,
        "epsilon": 0.8125,
        "public_seed": PublicSeed.from_int(37),
        "estimate_loss": True,
    }
    m = design_mechanism(algorithm, domain, **settings)
    mechanism_statement(m)
    if m.noise is not Noise.NONE:
        clients = tuple(Client(name=f"c{i}", max_records=100) for i in range(5))
        trust = TrustMode.CLIENT_NOISE if m.noise is Noise.GAUSSIAN else TrustMode.SERVER_NOISE
        plan = design_plan(
            algorithm,
            domain,
            clients=clients,
            run_id=bytes(16),
            trust=trust,
            **(settings | {"n_records": 500}),
        )
        plan_statement(plan)
        m.draw_noise(m.all_rounds[0], SystemNoise())
        assert guarded[True] > 100 or m.noise is not Noise.GAUSSIAN
    assert guarded[False] == 0


@pytest.mark.parametrize(
    ("count", "error", "shown"),
    [
        (1021.0, 4.3, "1021 ± 4.3"),
        (1021.0, 43.2, "1021 ± 43"),
        (0.0, 0.43, "0 ± 0.43"),
        (-3.2, 12.0, "-3 ± 12"),
        (30269.6, 170, "30270 ± 170"),
        (7.0, 0.0, "7"),
    ],
)
def test_a_count_is_shown_as_a_whole_number(count: float, error: float, shown: str) -> None:
    assert precision.counted(count, error) == shown


def test_a_whole_float_is_written_as_an_integer() -> None:
    assert [str(precision.as_whole(value)) for value in (669.0, 4.3)] == ["669", "4.3"]
