"""Synthetic families of the paper's evaluation, by name. A name always means the same records.

A name is the word of its family and its parameters, joined by hyphens: `synth-4-2-1`. All random
numbers follow from the name, so nothing is stored. Records are rounded to four decimals, while
clusters have standard deviations of at least 1. Linear algebra differs in the last digit between
machines, which rounding removes.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.names import listing
from fastlloyd.base.randomness import Draws
from fastlloyd.errors import DataError
from fastlloyd.records import Table
from fastlloyd_lab.datasets.mixture import draws_for, random_mixture, with_outliers

Labelled = tuple[FloatArray, IntArray]

_SYNTH_RECORDS = 10_000
_SYNTH_SEPARATIONS = (0.16, 0.26)
_SYNTH_MOST_OUTLIERS = 100
_ABLATION_RECORDS = 2048  # on average
_ABLATION_SPREAD = 0.3
_TIMESYNTH_SEPARATION = 0.21
_G2_RECORDS = 1024  # of each of the two clusters
_G2_MEANS = (500.0, 600.0)
_DECIMALS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """Number in a name: its letter, its range (both ends included), and whether it is whole or has
    up to three decimals.
    """

    letter: str
    low: float
    high: float
    whole: bool = True

    def parse(self, text: str) -> float | None:
        """Return the number in the text, or None if it is outside the range or not written in the
        usual way.
        """
        spelling = r"0|[1-9][0-9]{0,8}" if self.whole else r"0\.[0-9]{0,2}[1-9]"
        if not re.fullmatch(spelling, text, re.ASCII) or not self.low <= float(text) <= self.high:
            return None
        return float(text)

    def __str__(self) -> str:
        if self.whole:
            return f"{self.letter} is a whole number from {self.low:.0f} to {self.high:.0f}"
        return (
            f"{self.letter} is a decimal from {self.low} to {self.high} like 0.25, without trailing"
            " zeros"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Family of generated sets, whose names differ in a few numbers.

    pattern : pattern of the names, such as `synth-K-D-R`.
    text : description of the sets.
    parameters : numbers in the order of the pattern.
    draw : function of a name and its numbers that returns records (n, d), in any order, and their
        labels (n,).
    """

    pattern: str
    text: str
    parameters: tuple[Parameter, ...]
    draw: Callable[..., Labelled]

    @property
    def word(self) -> str:
        """First word of all names of the family."""
        return self.pattern.partition("-")[0]


def is_generated(name: str) -> bool:
    """Return whether the name begins with the word of a family and a hyphen. `generate` may still
    refuse its numbers.
    """
    return any(name.startswith(f"{family.word}-") for family in FAMILIES)


def n_clusters(name: str) -> int:
    """Return the number of clusters of a generated set. Raises DataError as `generate` does."""
    family, values = _parse(name)
    letters = [parameter.letter for parameter in family.parameters]
    return int(values[letters.index("K")]) if "K" in letters else len(_G2_MEANS)


def generate(name: str) -> Table:
    """Return the records of a generated set, with columns x1, x2, ..., in random order. Outliers
    are among them.

    Raises DataError if there is no such set. The message has the pattern and the ranges of its
    numbers.
    """
    return generate_labelled(name)[0]


def generate_labelled(name: str) -> tuple[Table, IntArray]:
    """Return the records of `generate` with their labels, (n_records,).

    A label is the index of the record's cluster, from 0, or -1 for an outlier.
    """
    family, values = _parse(name)
    records, labels = family.draw(
        name, *(int(v) if p.whole else v for p, v in zip(family.parameters, values, strict=True))
    )
    order = draws_for(f"{name}/order").permutation(len(records))
    columns = tuple(f"x{feature + 1}" for feature in range(records.shape[1]))
    return (
        Table(values=records[order], columns=columns, source=f"generated set {name}"),
        labels[order],
    )


def _parse(name: str) -> tuple[Family, list[float]]:
    word, *texts = name.split("-")
    family = next((family for family in FAMILIES if family.word == word), None)
    if family is None:
        patterns = listing([family.pattern for family in FAMILIES])
        raise DataError(f"there is no generated set {name!r}; their names are made like {patterns}")
    values = [
        parameter.parse(text) for parameter, text in zip(family.parameters, texts, strict=False)
    ]
    if len(texts) != len(family.parameters) or None in values:
        raise DataError(
            f"there is no generated set {name!r}: in {family.pattern},"
            f" {'; '.join(map(str, family.parameters))}"
        )
    return family, [value for value in values if value is not None]


# The families


def _synth(name: str, k: int, d: int, replicate: int) -> Labelled:
    # the authors' script draws these once for all replicates
    common = draws_for(name.removesuffix(f"-{replicate}"))
    separation = float(common.uniform(*_SYNTH_SEPARATIONS, (1,))[0])
    n_outliers = int(common.integers(0, _SYNTH_MOST_OUTLIERS, (1,))[0])
    draws = draws_for(name)
    sizes = shares(_SYNTH_RECORDS - n_outliers, np.arange(1, k + 1))
    records, labels = random_mixture(k, d, separation, draws).records(sizes, draws)
    records, labels = with_outliers(records, labels, n_outliers, draws)
    return _rounded(records), labels


def _ablation(name: str, k: int, d: int, separation: float) -> Labelled:
    draws = draws_for(name)
    low, high = (
        factor * (_ABLATION_RECORDS / k) for factor in (1 - _ABLATION_SPREAD, 1 + _ABLATION_SPREAD)
    )
    sizes = draws.integers(math.ceil(low), math.floor(high), (k,))
    return _mixed(k, d, separation, sizes, draws)


def _timesynth(name: str, n: int, k: int, d: int) -> Labelled:
    sizes = shares(n, np.ones(k, dtype=np.int64))
    return _mixed(k, d, _TIMESYNTH_SEPARATION, sizes, draws_for(name))


def _mixed(k: int, d: int, separation: float, sizes: IntArray, draws: Draws) -> Labelled:
    records, labels = random_mixture(k, d, separation, draws).records(sizes, draws)
    return _rounded(records), labels


def _g2(name: str, d: int, deviation: int) -> Labelled:
    labels = np.repeat(np.arange(2), _G2_RECORDS)
    centres = np.repeat(_G2_MEANS, _G2_RECORDS)[:, None]
    return np.floor(centres + deviation * draws_for(name).normal((len(labels), d))), labels


def _rounded(records: FloatArray) -> FloatArray:
    return np.round(records, _DECIMALS) + 0.0  # there is one zero


def shares(n: int, ratio: IntArray) -> IntArray:
    """Return whole numbers (k,) with the sum n, in the given ratio. Each differs from its exact
    share of n by less than one.
    """
    edges = n * np.cumsum(ratio) // int(ratio.sum())
    return np.diff(edges, prepend=0)


_CLUSTERS, _FEATURES = (
    Parameter(letter="K", low=2, high=128),
    Parameter(letter="D", low=2, high=512),
)
_REPLICATE = Parameter(letter="R", low=1, high=1000)

FAMILIES = (
    Family(
        pattern="synth-K-D-R",
        text=(
            f"Synth: {_SYNTH_RECORDS} records, K clusters of sizes 1:2:...:K in D dimensions with"
            f" separation in [0.16, 0.26], among them 0 to {_SYNTH_MOST_OUTLIERS} outliers;"
            " replicate R (the paper: K = 2..32, D = 2..512, R = 1, 2, 3)"
        ),
        parameters=(_CLUSTERS, _FEATURES, _REPLICATE),
        draw=_synth,
    ),
    Family(
        pattern="synthk-K-R",
        text="Synth-K: as Synth, in two dimensions (the paper: K = 2..128, R = 1, 2, 3)",
        parameters=(_CLUSTERS, _REPLICATE),
        draw=lambda name, k, replicate: _synth(name, k, 2, replicate),
    ),
    Family(
        pattern="ablation-K-D-S",
        text=(
            f"about {_ABLATION_RECORDS} records, K clusters of sizes within 30 % of their average"
            " in D dimensions with separation S, no outliers (the paper: K and D = 2, 4, 8, 16, S"
            " = 0.25, 0.5, 0.75)"
        ),
        parameters=(_CLUSTERS, _FEATURES, Parameter(letter="S", low=0.001, high=0.95, whole=False)),
        draw=_ablation,
    ),
    Family(
        pattern="timesynth-N-K-D",
        text=(
            "TimeSynth: N records, K clusters of one size in D dimensions with separation"
            f" {_TIMESYNTH_SEPARATION}, no outliers (the paper: N = 10000 and 100000, K and D = 2"
            " and 5)"
        ),
        parameters=(
            Parameter(letter="N", low=1000, high=1_000_000),
            _CLUSTERS,
            Parameter(letter="D", low=2, high=64),
        ),
        draw=_timesynth,
    ),
    Family(
        pattern="g2-D-S",
        text=(
            f"G2 drawn anew: two spherical normal clusters of {_G2_RECORDS} records in D dimensions"
            " with standard deviation S around 500 and 600, cut to whole numbers (published: D ="
            " 1..1024, S = 10..100)"
        ),
        parameters=(
            Parameter(letter="D", low=1, high=1024),
            Parameter(letter="S", low=1, high=1000),
        ),
        draw=_g2,
    ),
)
