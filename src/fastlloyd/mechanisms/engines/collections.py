"""Data frames and arrays of Dask, whose partitions remain with the workers of a Dask cluster.

They are recognised without an import of Dask.
"""

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import Outside
from fastlloyd.errors import DataError, EngineError
from fastlloyd.mechanisms.engines.dask import DaskEngine
from fastlloyd.mechanisms.engines.engine import Engine, Result
from fastlloyd.mechanisms.engines.records import EngineRecords
from fastlloyd.records.declared import INFINITE, MISSING
from fastlloyd.records.in_memory import matrix
from fastlloyd.records.recipe.rows import Using
from fastlloyd.records.recipe_frames import frame_records
from fastlloyd.records.record_file import RecordFile

_SOURCE = "X"


def is_collection(X: Any) -> bool:
    """Return whether X is a collection of Dask, or contains one."""
    kind = type(X)
    return hasattr(kind, "__dask_graph__") and (
        hasattr(kind, "to_delayed") or X.__dask_graph__() is not None
    )


@dataclass(frozen=True, slots=True)
class FramePart:
    """Partition of a Dask collection.

    number : number of the partition, from 0.
    records : data frame or array (n_i, n_features).
    features : names of the features.
    using : recipe that makes the features from the columns, or None for the columns as they are.
    """

    number: int
    records: Any = field(repr=False)
    features: Sequence[str]
    using: Using | None = None

    def open(self) -> RecordFile:
        """Return the records of the partition, in memory. Raises DataError if its columns are not
        those of the collection, or if the recipe refuses a cell.
        """
        where = f"partition {self.number + 1} of {_SOURCE}"
        if self.using is not None:
            if not len(self.records):
                values = np.empty((0, len(self.features)))
                return RecordFile.of_array(values, self.features, where)
            found = frame_records(self.records, self.using, source=where)
            return RecordFile.of_array(found.values, self.features, where)
        names = [name for name in getattr(self.records, "columns", ()) if isinstance(name, str)]
        if names and names != list(self.features):  # which only some of Dask's functions compare
            raise DataError(
                f"{where} has other columns than {_SOURCE}, or in another order; give all"
                " partitions the same columns in the same order"
            )
        records = self.records
        if isinstance(records, np.ma.MaskedArray) and records.dtype.kind in "biuf":
            records = np.ma.filled(records.astype(np.float64), np.nan)  # masked is missing
        values = matrix(records, where)
        if values.ndim != 2 or values.shape[1] != len(self.features):
            raise DataError(
                f"{where} is not a table of {len(self.features)} columns; give all partitions the"
                " same columns"
            )
        if values.dtype not in (np.float32, np.float64):
            values = values.astype(np.float64)
        if not (finite := np.isfinite(values).all(axis=0)).all():
            column = int(finite.argmin())
            fault, code = "missing", MISSING
            if np.isinf(values[:, column]).any():
                fault, code = "infinite, or too large for float64", INFINITE
            raise DataError(
                f"{where}, column {self.features[column]!r}: a value is {fault}; leave such records"
                " out, or fill in a constant chosen without looking at the data",
                code=code,
                field=self.features[column],
            )
        return RecordFile.of_array(values, self.features, where)


def sample(X: Any) -> Any:
    """Return an empty data frame or array with the columns and types of the collection.

    Raises DataError if X is not a data frame or a matrix, or if its number of columns is not known.
    """
    if hasattr(type(X), "to_delayed") and getattr(X, "ndim", 0) == 2:
        if math.isnan(X.shape[1]):
            raise DataError(
                "X is an array of Dask, and the number of its columns is not known; call its"
                " compute_chunk_sizes"
            )
        # its only name
        if hasattr(X, "columns"):
            return X._meta  # noqa: SLF001
        return np.empty((0, X.shape[1]), dtype=X.dtype)
    raise DataError(
        f"X is a {type(X).__name__} of Dask; expected a data frame of Dask, or an array of two"
        " dimensions"
    )


def collection_records(X: Any, domain: Domain, using: Using | None = None) -> EngineRecords:
    """Return the records of a data frame or array of Dask.

    The workers of the Dask cluster to which this process is connected read the records. The workers
    keep as many grid points as their memory allows. Without a Dask cluster, this process computes
    one partition after the other, in each pass. Persist X so that it is not computed again in each
    pass.

    using : as in `FramePart`.
    """
    dask = importlib.import_module("dask")
    if hasattr(X, "columns"):
        partitions, sizes = X.to_delayed(), [math.nan] * X.npartitions
    else:
        X = X.rechunk({1: -1})  # all features of a record in one place
        partitions, sizes = X.to_delayed()[:, 0], X.chunks[0]
    part = dask.delayed(FramePart, pure=False)
    parts = [
        part(number, partition, domain.features, using)
        for number, partition in enumerate(partitions)
    ]
    cells = [None if math.isnan(n) else int(n) * domain.n_features for n in sizes]
    return EngineRecords(_SOURCE, parts, cells, domain, Outside.CLIP, _engine())


def _engine() -> Engine:
    """Return the engine of the Dask cluster to which this process is connected. If it is connected
    to none, return the engine of this process.
    """
    try:
        client = importlib.import_module("distributed").default_client()
    except (ImportError, ValueError):
        return HereEngine()
    return DaskEngine(client, "the Dask cluster")


class HereEngine(Engine):
    """Engine without a Dask cluster, which computes partitions one after the other in this
    process.
    """

    name = "this process"
    kept_bytes = 1 << 28

    def map(
        self, function: Callable[[Any], Result], pieces: Sequence[Any]
    ) -> Iterator[tuple[int, Result] | None]:
        """Yield the index and the result of each piece, in the order of the pieces."""
        for number, piece in enumerate(pieces):
            yield number, function(self._computed(number, piece))

    def keep(self, function: Callable[[Any], Any], pieces: Sequence[Any]) -> list[Any]:
        """Return the results, which this process keeps. Raises EngineError if a partition cannot be
        computed.
        """
        return [function(self._computed(number, piece)) for number, piece in enumerate(pieces)]

    def _computed(self, number: int, piece: Any) -> Any:
        if not is_collection(piece):
            return piece
        try:
            return piece.compute()
        except Exception as error:  # noqa: BLE001 - its words may be cells
            fault = type(error).__name__
        # raised out here, where no exception is being handled that quotes a cell
        raise EngineError(
            f"partition {number + 1} of {_SOURCE} could not be computed ({fault}); compute X alone"
            " to see why"
        )
