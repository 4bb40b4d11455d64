"""Rows of persons, pass after pass, which must be the same in each."""

from collections.abc import Iterator

from fastlloyd.clustering.domain import GridArray
from fastlloyd.clustering.grid_records import Rows
from fastlloyd.errors import DataError
from fastlloyd.mechanisms.passes.seal import Seal, SealedPass
from fastlloyd.records.ids import Ids


class SealedRows:
    """Rows on the grid with ids; source : of them, for messages. A pass raises what reading them raises, and DataError."""

    def __init__(self, rows: Rows, source: str) -> None:
        self.domain = rows.domain
        self._rows, self._source, self._seal, self._n_rows = rows, source, Seal(), 0

    def first(self) -> Iterator[tuple[GridArray, Ids]]:
        """All rows, and whose they are."""
        sealing = SealedPass(self._seal)
        for X, ids in self._rows.with_ids():
            if ids is None:
                raise DataError(f"{self._source}: the mechanism protects persons, and the records were read without ids")
            sealing.add(X, ids)
            yield X, ids
        sealing.close()
        self._n_rows = sealing.n_rows

    def again(self) -> Iterator[tuple[int, GridArray]]:
        """All rows, each block with the number of the first one. Raises DataError in the end if they are not the same."""
        sealing, n_rows = SealedPass(self._seal), 0
        for X, ids in self._rows.with_ids():
            if n_rows + len(X) > self._n_rows:
                raise self.changed()
            yield n_rows, X
            n_rows += len(X)
            if ids is not None:  # else the points are those of the first pass, kept
                sealing.add(X, ids)
        if not (self._rows.are_kept or sealing.is_unbroken()):
            raise self.changed()

    def changed(self) -> DataError:
        """Say that a pass saw other rows than the first."""
        return DataError(
            f"{self._source}: the records, or their order, are not those of the first pass, and every pass must see the same; "
            "copy the file to where nobody writes, and start again"
        )
