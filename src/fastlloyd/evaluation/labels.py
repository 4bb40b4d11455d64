"""Labels of records by a finished clustering, which is read from its folder. NOT PRIVATE.

The labels are exact facts about the records.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastlloyd.base.arrays import FloatArray, IntArray, RealArray
from fastlloyd.clustering import kernels
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.outside import Clipped
from fastlloyd.records import Layout, Missing, open_records
from fastlloyd.records.person_rows import rows_of_persons
from fastlloyd.records.recipe.rows import Using
from fastlloyd.reports.stored_result import StoredResult

BLOCK_ROWS = 1 << 16  # records held as numbers and text at a time


class Labels(msgspec.Struct, frozen=True, kw_only=True):
    """Labels of one block of records, all exact and NOT PRIVATE.

    clusters : for each record, the index of the nearest centroid in the scaled domain, from 0
        (ties: lowest), int32 (n,).
    distances : distance from this centroid, in half widths of the scaled domain, float64 (n,).
    clipped : numbers of records and values outside the bounds.
    """

    clusters: NDArray[np.int32]
    distances: FloatArray
    clipped: Clipped


class FittedClustering(msgspec.Struct, frozen=True, kw_only=True):
    """Domain and centroids of a finished clustering.

    centroids : int64 (n_clusters, n_features), in grid units.
    """

    domain: Domain
    centroids: IntArray

    @classmethod
    def read(cls, result: Path) -> Self:
        """Return the clustering in the folder of a run's result. Raises the errors of
        `StoredResult.read`.
        """
        stored = StoredResult.read(result)
        return cls(domain=stored.mechanism.domain, centroids=stored.centroids)

    def label(self, values: ArrayLike) -> Labels:
        """Return the labels of records, equal bit for bit to those of an estimator's `predict`.

        Values outside the bounds are clipped. Raises DataError if a value is not finite.

        values : records in original units, (n, n_features).
        """
        grid, marks = self.domain.to_grid_and_outside(values)
        clusters = kernels.assign(grid, self.centroids, limits=self.domain.half_widths)
        squared = ((grid - self.centroids[clusters]) ** 2).sum(axis=1)
        return Labels(
            clusters=clusters,
            distances=np.sqrt(squared.astype(np.float64)) / 2**self.domain.fraction_bits,
            clipped=Clipped.of(marks),
        )


def record_blocks(
    path: str | Path,
    columns: tuple[str, ...],
    missing: Missing = Missing.REFUSE,
    recipe: Using | None = None,
    unit: str | None = None,
    layout: Layout | None = None,
) -> Iterator[RealArray]:
    """Yield the named columns of a file of records, in blocks of rows (n, n_features).

    No record is left out. With `Missing.DROP`, a missing cell is NaN.

    recipe : recipe whose features the columns are, or None. It says what a missing cell means. If
        it makes one record of all rows of a person, each row gets the features of its person.
    unit : name of the column of the ids, or None.

    Raises DataError if the file cannot be read, a column is missing, or a cell is refused.
    """
    file = open_records(path, columns, missing=missing, unit=unit, recipe=recipe, layout=layout)
    is_per_person = recipe is not None and recipe.is_per_person
    blocks = rows_of_persons(file, recipe) if recipe and is_per_person else file.blocks_with_gaps()
    for values in blocks:
        for start in range(0, len(values), BLOCK_ROWS):
            yield values[start : start + BLOCK_ROWS]
