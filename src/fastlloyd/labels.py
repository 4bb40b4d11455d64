"""Labels of records by a finished clustering, read back from the folder it left. Exact facts about the records: NOT PRIVATE."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastlloyd.clustering import kernels
from fastlloyd.clustering.domain import Domain, FloatArray, IntArray
from fastlloyd.clustering.outside import Outside, records_outside
from fastlloyd.documents import load_text
from fastlloyd.errors import DataError
from fastlloyd.mechanism import Mechanism
from fastlloyd.mechanisms import read_mechanism
from fastlloyd.outputs import CENTROIDS, MECHANISM, PLAN
from fastlloyd.plan import Plan
from fastlloyd.records import Missing, open_records
from fastlloyd.records.column_block import FloatArray as Cells
from fastlloyd.records.files import opened

BLOCK_ROWS = 1 << 16  # records held as numbers and text at a time


class Labels(msgspec.Struct, frozen=True, kw_only=True):
    """Of one block of records, all exact and NOT PRIVATE.

    clusters : int32 (n,), index of the nearest centroid in the scaled domain, from 0, ties to the lowest. distances : float64
    (n,), to that centroid, in half widths of the scaled domain. n_clipped : how many records have a value outside the bounds.
    """

    clusters: NDArray[np.int32]
    distances: FloatArray
    n_clipped: int


class FittedClustering(msgspec.Struct, frozen=True, kw_only=True):
    """Centroids, int64 (n_clusters, n_features) in grid units, and the domain they live in."""

    domain: Domain
    centroids: IntArray

    @classmethod
    def read(cls, result: Path) -> Self:
        """Read what `fit` or `simulate` left: the folder, or its centroids.csv with mechanism.toml or plan.toml beside it.

        Raises PlanError if the settings are missing or were changed, DataError if the centroids are not theirs.
        """
        table = result / CENTROIDS if result.is_dir() else result
        if not table.is_file():
            raise DataError(f"{result} is no result: name a folder that fit or simulate left, or the centroids.csv in it")
        mechanism = _settings(table.parent)
        return cls(domain=mechanism.domain, centroids=_centroids(table, mechanism))

    def label(self, values: ArrayLike) -> Labels:
        """Labels of records in original units, (n, n_features), equal to an estimator's `predict` bit for bit.

        Values outside the bounds are clipped. Raises DataError where a value is not finite.
        """
        grid = self.domain.to_grid(values)
        clusters = kernels.assign(grid, self.centroids)
        squared = ((grid - self.centroids[clusters]) ** 2).sum(axis=1)
        return Labels(
            clusters=clusters,
            distances=np.sqrt(squared.astype(np.float64)) / 2**self.domain.fraction_bits,
            n_clipped=records_outside(self.domain, values, Outside.CLIP, source="the records"),
        )


def record_blocks(path: Path, columns: tuple[str, ...], missing: Missing = Missing.REFUSE) -> Iterator[Cells]:
    """The named columns of a records file, block of rows by block of rows, (n, n_features). Raises DataError.

    No record is left out: with `Missing.DROP` NaN stands for a missing cell.
    """
    for values in open_records(path, columns, missing=missing).blocks_with_gaps():
        for start in range(0, len(values), BLOCK_ROWS):
            yield values[start : start + BLOCK_ROWS]


def _settings(folder: Path) -> Mechanism:
    mechanism, plan = folder / MECHANISM, folder / PLAN
    if mechanism.exists():
        return read_mechanism(load_text(mechanism), str(mechanism))
    if plan.exists():
        return Plan.from_toml(load_text(plan), str(plan)).mechanism
    raise DataError(f"{folder} holds neither {MECHANISM} nor {PLAN}, which say what the centroids mean; keep a result together")


def _centroids(path: Path, mechanism: Mechanism) -> IntArray:
    """The centroids of a result as grid points: no float of the file is trusted further than to name one."""
    domain = mechanism.domain
    wanted = [*domain.features, "noisy_count"]
    with opened(path) as text:
        try:
            header, *rows = csv.reader(text, strict=True)
            values = np.array([[float(cell) for cell in row[: domain.n_features]] for row in rows])
        except (ValueError, csv.Error):  # no row, no number, a quotation mark without partner
            raise DataError(f"{path} is not the centroids.csv of a result: no table of numbers below names") from None
    if header[: len(wanted)] != wanted:
        raise DataError(f"{path} does not belong to the settings beside it: its columns are not their features and noisy_count")
    if values.shape != (mechanism.n_clusters, domain.n_features) or not np.isfinite(values).all():
        raise DataError(
            f"{path} does not belong to the settings beside it: it does not hold a finite centroid for each of their "
            f"{mechanism.n_clusters} clusters"
        )
    nearest = np.rint((values - domain.centre) / domain.units)
    if (np.abs(nearest) > domain.saturation).any() or (domain.from_grid(nearest.astype(np.int64)) != values).any():
        raise DataError(f"{path} was rounded, changed, or made with other settings than those beside it; get the original")
    return nearest.astype(np.int64)
