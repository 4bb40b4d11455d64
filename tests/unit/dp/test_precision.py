import math
import os
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.dp.precision import exact, greatest_float, least_float, round_up, working_precision

HANG = 300  # seconds after which the system ends a child that waits for ever; one that does not needs milliseconds
POSITIVE = st.floats(min_value=0, allow_infinity=False, allow_nan=False)


@given(POSITIVE)
def test_least_float_finds_every_float_exactly(threshold: float) -> None:
    assert least_float(lambda x: x >= threshold) == threshold


@given(POSITIVE)
def test_greatest_float_finds_every_float_exactly(threshold: float) -> None:
    assert greatest_float(lambda x: x <= threshold) == threshold


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_child_forked_while_another_thread_computes_can_compute_too() -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with working_precision(64):
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forking with threads: that is the point
        pid = os.fork()
    if pid == 0:
        signal.alarm(HANG)
        with working_precision(64) as mp:
            os._exit(0 if mp.mpf(2) == 2 else 1)
    _, status = os.waitpid(pid, 0)
    done.set()
    thread.join()
    assert status == 0
