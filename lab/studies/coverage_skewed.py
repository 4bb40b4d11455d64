"""Skewed columns for the study of standard errors: many zeros, long tails, or a few records in
another corner.

In each column the mean is farther out than the centre that the noisy sums show. All records are
within the bounds 0 to 100, or clipped to them. Capital gains have bounds of their own.
"""

import sys

import numpy as np

from fastlloyd.errors import FastLloydError
from fastlloyd_lab.datasets import load
from studies.coverage_groups import HIGH, Case, FloatArray, Maker, Rng, case_of

ALGORITHMS = ("momentlloyd", "fastlloyd", "glloyd", "sulloyd")
SIZE = 10_000
CAPITAL_GAIN, MOST_GAIN = 3, 99_999.0  # the column of adult, and its largest code


def section(algorithm: str) -> str:
    """Return the title of the table for an algorithm."""
    return f"Skewed columns, {algorithm}"


def zeros(share: float, scale: float) -> Maker:
    """Return a function that makes exponential records, in which a share of the cells of each
    feature is 0.
    """
    return lambda rng, d: np.where(
        rng.random((SIZE, d)) < share, 0.0, scale * rng.exponential(size=(SIZE, d))
    )


def gamma(shape: float, scale: float) -> Maker:
    """Return a function that makes records of gamma variables. With shape 1 they are
    exponential.
    """
    return lambda rng, d: scale * rng.gamma(shape, size=(SIZE, d))


def lognormal(mean: float, deviation: float) -> Maker:
    """Return a function that makes records of lognormal variables.

    mean, deviation : mean and standard deviation of their logarithms.
    """
    return lambda rng, d: rng.lognormal(mean, deviation, (SIZE, d))


def pareto(exponent: float, scale: float) -> Maker:
    """Return a function that makes records of Pareto variables, shifted so that they start at 0."""
    return lambda rng, d: scale * rng.pareto(exponent, (SIZE, d))


def from_above(make: Maker) -> Maker:
    """Return a function that makes the records of `make`, mirrored in every feature, so that they
    start at the upper bound.
    """
    return lambda rng, d: HIGH - make(rng, d)


def up_and_down(make: Maker) -> Maker:
    """Return a function that makes the records of `make`, mirrored in every second feature."""

    def turned(rng: Rng, d: int) -> FloatArray:
        X = make(rng, d)
        X[:, 1::2] = HIGH - X[:, 1::2]
        return X

    return turned


def beside_normal(make: Maker) -> Maker:
    """Return a function that makes the first feature as `make` does, and all other features
    normal.
    """

    def mixed(rng: Rng, d: int) -> FloatArray:
        X = 50 + 10 * rng.normal(size=(SIZE, d))
        X[:, :1] = make(rng, 1)
        return X

    return mixed


def corner(size: int, share: float) -> Maker:
    """Return a function that makes a group around 20, and a share of the records around 90, in
    every feature.
    """

    def make(rng: Rng, d: int) -> FloatArray:
        few = round(share * size)
        return np.concatenate(
            [20 + 2 * rng.normal(size=(size - few, d)), 90 + 1.5 * rng.normal(size=(few, d))]
        )

    return make


# name, records, features, clusters, epsilon
KINDS: tuple[tuple[str, Maker, int, int, float], ...] = (
    ("95 % zeros", zeros(0.95, 20), 1, 1, 1.0),
    ("95 % zeros", zeros(0.95, 20), 1, 3, 1.0),
    ("90 % zeros", zeros(0.9, 15), 2, 3, 1.0),
    ("80 % zeros", zeros(0.8, 10), 1, 1, 0.3),
    ("80 % zeros beside a normal feature", beside_normal(zeros(0.8, 10)), 2, 2, 1.0),
    ("gamma .5", gamma(0.5, 10), 1, 1, 1.0),
    ("gamma .5", gamma(0.5, 10), 1, 3, 3.0),
    ("gamma .5", gamma(0.5, 10), 2, 3, 1.0),
    ("exponential", gamma(1, 8), 1, 1, 0.3),
    ("exponential", gamma(1, 8), 1, 3, 1.0),
    ("exponential", gamma(1, 8), 2, 3, 1.0),
    ("exponential", gamma(1, 8), 3, 3, 1.0),
    ("exponential, from the upper bound", from_above(gamma(1, 8)), 1, 3, 1.0),
    ("exponential, up and down", up_and_down(gamma(1, 8)), 2, 1, 1.0),
    ("lognormal", lognormal(1, 1), 1, 1, 1.0),
    ("lognormal", lognormal(1, 1), 1, 3, 0.3),
    ("Pareto 1.5", pareto(1.5, 3), 1, 1, 1.0),
    ("5 % in another corner", corner(SIZE, 0.05), 1, 1, 1.0),
    ("5 % in another corner", corner(SIZE, 0.05), 2, 1, 0.3),
    ("2 % in another corner", corner(SIZE // 2, 0.02), 2, 1, 1.0),
    ("exponential", gamma(1, 8), 5, 3, 1.0),
    ("5 % in another corner", corner(SIZE, 0.05), 5, 1, 1.0),
)


def skewed_cases() -> tuple[Case, ...]:
    """Return the cases of every kind of column with every algorithm."""
    return tuple(
        case_of(section(algorithm), name, make, d, k, epsilon=epsilon, algorithm=algorithm)
        for algorithm in ALGORITHMS
        for name, make, d, k, epsilon in (*_capital_gain(), *KINDS)
    )


def _capital_gain() -> tuple[tuple[str, Maker, int, int, float], ...]:
    """Return the rows for the capital gains of the set adult, scaled so that their bounds become 0
    to 100. 92 % of them are zeros. Return no rows if the set is not on this machine.
    """
    try:
        column = np.asarray(load("adult").values)[:, CAPITAL_GAIN]
    except FastLloydError:
        print("Capital gains are left out: see docs/how-to/data-sets.md", file=sys.stderr)
        return ()
    X = HIGH * column[:, None] / MOST_GAIN
    return tuple(("capital gains of adult", lambda *_: X, 1, k, 1.0) for k in (1, 3))
