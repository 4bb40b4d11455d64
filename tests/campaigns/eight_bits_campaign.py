"""Bytes that propose beside exact distances: `make campaign`, 10,000,000,000 pairs of a record and a
centroid, or as many as COMPARISONS says.

Plain `pytest` does not collect it. The records of a part follow from its number.
"""

import datetime as dt
import os
import sys
from itertools import count

import numpy as np
import pytest

import campaign_page
from eight_bit_cases import KINDS, situation
from fastlloyd.base.compiling import is_compiled
from fastlloyd.clustering import eight_bits, kernels
from fastlloyd.clustering.domain import finest_bits
from fastlloyd.clustering.eight_bits import EightBits, is_exact

pytestmark = pytest.mark.campaign

FULL_SIZE = 10**10
N_PAIRS = int(os.environ.get("COMPARISONS", str(FULL_SIZE)))
RECORDS = 4000
SHAPES = [(256, 64), (257, 65), (641, 69), (1025, 101), (513, 257), (300, 785)]
COLUMNS = ("records and centroids", "pairs", "records left to float32")

TEXT = """\
{measured}
{n:,} pairs of a record and a centroid: the labels that bytes propose and integers decide are those of all exact distances, in float64,
in every case ([proof](../proofs/eight-bits.md)). In every second part, float32 proposes for all records with two candidates or more
(after seven of a block). Shapes (clusters, features): {shapes}; grids from 4 bits to the finest.

{table}

Not shown: other processors and versions of LLVM."""


def test_labels_are_those_of_all_exact_distances(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    assert is_compiled(1 << 40)
    if not is_exact():
        pytest.skip("the processor has no products of bytes")
    started = dt.datetime.now(dt.UTC)
    pairs, left = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
    parts = count()
    while sum(pairs.values()) < N_PAIRS:
        for k, d in SHAPES:
            for kind in KINDS:
                seed = next(parts)
                bits = 4 + seed % (finest_bits(d) - 5)
                X, C = situation(kind, RECORDS, k, d, 2**bits, seed)
                expected, squared = kernels.nearest(X.astype(np.float64), C.astype(np.float64))
                radius = float(np.median(squared)) if seed % 2 else np.inf
                expected[squared > radius] = k
                most = 1 if seed // len(KINDS) % 2 else 64  # with 1, float32 proposes for far more
                monkeypatch.setattr(eight_bits, "MOST_CANDIDATES", most)
                search = EightBits(C, radius, largest=2**bits)
                for place, labels, n in search.labels(X.astype(np.int32), 0, RECORDS):
                    assert np.array_equal(labels, expected[place : place + len(labels)]), seed
                    left[kind] += n
                pairs[kind] += RECORDS * k
    rows = [(kind, f"{pairs[kind]:,}", f"{left[kind]:,}") for kind in KINDS]
    with capsys.disabled():
        sys.stdout.write(f"\n{campaign_page.aligned([COLUMNS, *rows])}\n")
    text = TEXT.format(
        measured=campaign_page.measured(started, NumPy=np.__version__),
        n=sum(pairs.values()),
        shapes="; ".join(f"{k}, {d}" for k, d in SHAPES),
        table=campaign_page.table(COLUMNS, rows),
    )
    campaign_page.write_section("Eight bits", text, is_full_size=N_PAIRS >= FULL_SIZE)
