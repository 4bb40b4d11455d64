"""Compiled clipping beside the definition: `make campaign`, 30,000,000 vectors, or as many as
VECTORS says.

Plain `pytest` does not collect it. The vectors of a part follow from its number.
"""

import datetime as dt
import os
import sys

import numpy as np
import pytest

import campaign_page
from clipping_cases import LONGEST, compiled, hardest
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.compiling import is_compiled
from fastlloyd.mechanisms.queries.clipping import clip

pytestmark = pytest.mark.campaign

FULL_SIZE = 30_000_000
N_VECTORS = int(os.environ.get("VECTORS", str(FULL_SIZE)))
PART = 300_000
COLUMNS = ("vectors", "U", "number")
UNITS = (2**16, 2**16 - 2, 2**13, 10)

TEXT = """\
{measured}
{n:,} vectors were clipped by compiled code, which multiplies, and by the definition, which divides: the same integers in every
coordinate ([proof](../proofs/clipped-queries.md)). The hardest ones have a coordinate that is, after clipping, an integer, or as
near to one as any is for its length, which lies anywhere up to the greatest.

{table}

Not shown: other machines, compilers and versions of numba."""


def hard(units: int, generator: np.random.Generator) -> tuple[IntArray, int]:
    """With lengths of every order of magnitude, half of them close to the greatest."""
    lengths = (LONGEST / 2.0 ** generator.uniform(0, 26, PART // 3)).astype(np.int64)
    lengths[::2] = LONGEST - generator.integers(0, LONGEST // 2, len(lengths[::2]))
    return hardest(lengths, units, generator), 1


def any_at_all(units: int, generator: np.random.Generator) -> tuple[IntArray, int]:
    """Of 1 to 9 features, some longer than the radius and some not."""
    d = int(generator.integers(1, 10))
    scale = 2.0 ** generator.uniform(-26, 0, (PART, 1))
    Z = np.trunc(generator.uniform(-1, 1, (PART, d)) * scale * LONGEST / np.sqrt(d)).astype(
        np.int64
    )
    return Z, int(2 ** generator.uniform(0, 27))


KINDS = {"hardest": hard, "any": any_at_all}


def test_compiled_code_clips_as_the_definition_says(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("numba")
    assert is_compiled(1 << 40)
    started, found = (
        dt.datetime.now(dt.UTC),
        dict.fromkeys([(kind, units) for kind in KINDS for units in UNITS], 0),
    )
    number = 0
    while sum(found.values()) < N_VECTORS:
        for kind, units in found:
            Z, radius = KINDS[kind](units, np.random.default_rng(number))
            assert np.array_equal(
                compiled(Z, radius, units), clip(Z.astype(np.float64), radius, units)
            ), (kind, number)
            found[kind, units] += len(Z)
            number += 1
    rows = [(kind, str(units), f"{n:,}") for (kind, units), n in found.items()]
    with capsys.disabled():
        sys.stdout.write(f"\n{campaign_page.aligned([COLUMNS, *rows])}\n")
    text = TEXT.format(
        measured=campaign_page.measured(started, NumPy=np.__version__),
        n=sum(found.values()),
        table=campaign_page.table(COLUMNS, rows),
    )
    campaign_page.write_section("Clipping", text, is_full_size=N_VECTORS >= FULL_SIZE)
