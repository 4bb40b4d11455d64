"""Candidates far away from all others: small clusters are looked for there, and believed where votes stand out of the noise.

The fitted Gaussian says nothing of them: it follows the bulk of the records. They are asked for in the same histogram, whose
sensitivity does not depend on the number of candidates, so they cost numbers in the answer and none of the budget. Were their
votes shrunk as the others are, noise far away would pull centroids; so each counts alone, in full or not at all.
"""

import numpy as np

from fastlloyd.base.draws import Draws
from fastlloyd.clustering.domain import FloatArray
from fastlloyd.mechanisms.moment_lloyd.directions import deviations, used
from fastlloyd.mechanisms.moment_lloyd.histogram import outstanding, weights
from fastlloyd.mechanisms.moment_lloyd.noisy import Noisy
from fastlloyd.mechanisms.moment_lloyd.rounds import MomentFields
from fastlloyd.mechanisms.moment_lloyd.state import State

PART = 4  # one candidate of so many is far away
LENGTHS = (3.0, 5.0)  # typical lengths: their distances from the mean
TINY = 1e-300


def together(near: int) -> int:
    """How many candidates there are, where so many are to be near."""
    return near + near // (PART - 1)


def number(m: MomentFields) -> int:
    """How many of the candidates, the last ones, are far away; with few features their box is widened instead."""
    return m.n_candidates // PART if m.n_directions else 0


def candidates(state: State, draws: Draws, n: int) -> FloatArray:
    """n points (n, found) at these distances in turn, in directions from the mean that the fitted Gaussian has."""
    y = draws.normal((n, used(state))) * deviations(state)
    radii = state.length * np.resize(LENGTHS, n)
    return np.asarray(y * (radii / np.maximum(np.linalg.norm(y, axis=1), TINY))[:, None])


def weighed(votes: Noisy, expected: FloatArray, n: float, n_far: int) -> FloatArray:
    """Weights of candidates, float64 (m,), which sum up to n, the last n_far of them far away; expected : for all m."""
    near = len(expected) - n_far
    far = outstanding(Noisy(votes.values[near:], votes.deviation), n)
    left, total = n - float(far.sum()), float(expected[:near].sum())
    there = expected[:near] * (left / total) if total else np.full(near, left / near)
    return np.concatenate([weights(Noisy(votes.values[:near], votes.deviation), there, left), far])
