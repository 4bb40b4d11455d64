from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

import fastlloyd.testing
from fastlloyd.dp.noise import rounded_gaussian, two_sided_geometric
from fastlloyd.errors import LocalProtocolError
from fastlloyd.testing import InjectedNoise, SeededNoise

SCALE = Fraction(2) ** 20


def test_the_module_and_its_sources_say_that_they_are_not_private() -> None:
    assert str(fastlloyd.testing.__doc__).startswith("NOT PRIVATE")
    for source in (SeededNoise, InjectedNoise):
        assert source.private is False
        assert "NOT PRIVATE" in str(source.__doc__)


def test_equal_seeds_give_equal_noise_for_equal_calls() -> None:
    one, two, other = SeededNoise(7), SeededNoise(7), SeededNoise(8)
    for _ in range(3):
        drawn = one.gaussian(SCALE, 50)
        assert np.array_equal(drawn, two.gaussian(SCALE, 50))
        assert not np.array_equal(drawn, other.gaussian(SCALE, 50))
        assert np.array_equal(
            one.two_sided_geometric(SCALE, 50), two.two_sided_geometric(SCALE, 50)
        )


def test_two_calls_do_not_repeat_one_another() -> None:
    source = SeededNoise(7)
    assert not np.any(source.gaussian(SCALE, 20) == source.gaussian(SCALE, 20))


def test_the_seeded_source_runs_the_production_samplers() -> None:
    source = SeededNoise(7)
    cipher = Cipher(ChaCha20(bytes(32), bytes(16)), mode=None)
    source._key_stream, again = cipher.encryptor(), cipher.encryptor()
    assert np.array_equal(
        source.gaussian(SCALE, 9), rounded_gaussian(SCALE, 9, lambda n: again.update(bytes(n)))
    )
    assert np.array_equal(
        source.two_sided_geometric(SCALE, 9),
        two_sided_geometric(SCALE, 9, lambda n: again.update(bytes(n))),
    )


def test_injected_noise_is_handed_out_in_order_whatever_the_law() -> None:
    source = InjectedNoise([[1, 2], np.array([3]), []])
    first = source.gaussian(SCALE, 2)
    assert first.dtype == np.int64
    assert first.tolist() == [1, 2]
    assert source.two_sided_geometric(SCALE, 1).tolist() == [3]
    assert source.gaussian(SCALE, 0).tolist() == []


def test_injected_noise_is_copied_in_and_out() -> None:
    given = np.array([1, 2])
    source = InjectedNoise([given, given])
    given[:] = 0
    source.gaussian(SCALE, 2)[:] = 9
    assert source.gaussian(SCALE, 2).tolist() == [1, 2]


def test_injected_noise_of_the_wrong_size_is_refused_and_stays() -> None:
    source = InjectedNoise([[1, 2]])
    with pytest.raises(LocalProtocolError, match=r"shape \(2,\).*\(3,\)"):
        source.gaussian(SCALE, 3)
    assert source.gaussian(SCALE, 2).tolist() == [1, 2]


def test_injected_noise_that_is_used_up_is_refused() -> None:
    source = InjectedNoise([[1]])
    source.gaussian(SCALE, 1)
    with pytest.raises(LocalProtocolError, match="all 1 injected"):
        source.gaussian(SCALE, 1)
