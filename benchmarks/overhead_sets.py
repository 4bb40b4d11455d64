"""The sets of the paper's Table 3, and what it says about each."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastlloyd.errors import DataError
from fastlloyd.evaluation.datasets import named

Records = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A row of Table 3, per iteration, two clients: milliseconds (with a 95 % half width) and bytes of both clients together.

    fastlloyd was measured on a MacBook Pro M2 Max; mohassel is quoted there from Mohassel, Rosulek and Trieu (2020).
    """

    fastlloyd: float
    half_width: float
    n_bytes: int
    mohassel: float | None = None
    mohassel_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """A set by name and shape."""

    name: str
    n: int
    k: int
    d: int
    published: Published

    def load(self) -> Records:
        """The records, float64 (n, d). DataError where the set is not there."""
        name = f"timesynth-{self.n}-{self.k}-{self.d}" if self.name == "TimeSynth" else self.name.lower()
        return np.asarray(named.load(name).values)


SETS = (
    Set(name="TimeSynth", n=10_000, k=2, d=2, published=Published(
        fastlloyd=3.03, half_width=0.02, n_bytes=192, mohassel=10_500, mohassel_bytes=2.557e8)),
    Set(name="TimeSynth", n=10_000, k=2, d=5, published=Published(fastlloyd=3.24, half_width=0.01, n_bytes=384)),
    Set(name="TimeSynth", n=10_000, k=5, d=2, published=Published(
        fastlloyd=4.32, half_width=0.02, n_bytes=480, mohassel=34_050, mohassel_bytes=9.746e8)),
    Set(name="TimeSynth", n=10_000, k=5, d=5, published=Published(fastlloyd=4.95, half_width=0.04, n_bytes=960)),
    Set(name="TimeSynth", n=100_000, k=2, d=2, published=Published(
        fastlloyd=12.57, half_width=0.02, n_bytes=192, mohassel=105_120, mohassel_bytes=2.467e9)),
    Set(name="TimeSynth", n=100_000, k=2, d=5, published=Published(fastlloyd=13.17, half_width=0.03, n_bytes=384)),
    Set(name="TimeSynth", n=100_000, k=5, d=2, published=Published(
        fastlloyd=22.05, half_width=0.03, n_bytes=480, mohassel=347_250, mohassel_bytes=9.535e9)),
    Set(name="TimeSynth", n=100_000, k=5, d=5, published=Published(fastlloyd=22.56, half_width=0.02, n_bytes=960)),
    Set(name="LSun", n=400, k=3, d=2, published=Published(fastlloyd=2.6, half_width=0.04, n_bytes=288, mohassel=1481)),
    Set(name="S1", n=5_000, k=15, d=2, published=Published(fastlloyd=5.81, half_width=0.08, n_bytes=1440, mohassel=49_087)),
)  # fmt: skip


def available() -> tuple[list[tuple[Set, Records]], list[str]]:
    """The sets that are there with their records, and for each of the others a sentence that says why it is not."""
    found, absent = [], []
    for each in SETS:
        try:
            found.append((each, each.load()))
        except DataError as error:
            absent.append(f"{each.name} left out: {error}")
    return found, absent
