"""A block of records as columnar files give it: one array per feature, not yet put side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fastlloyd.base.arrays import RealArray


class ColumnBlock:
    """Records (n_records, n_features) as contiguous float32 or float64 arrays, one per feature; NumPy takes it for a table."""

    __slots__ = ("arrays",)

    def __init__(self, arrays: Sequence[RealArray]) -> None:
        self.arrays = tuple(arrays)

    def __len__(self) -> int:
        """Number of records."""
        return len(self.arrays[0])

    @property
    def shape(self) -> tuple[int, int]:
        """(n_records, n_features)."""
        return len(self), len(self.arrays)

    @property
    def is_plain(self) -> bool:
        """Whether code that is given addresses can read all columns: as many aligned numbers in each, one behind the other."""
        return all(
            array.shape == (len(self),)
            and array.flags.c_contiguous
            and array.flags.aligned
            and array.dtype in (np.float32, np.float64)
            for array in self.arrays
        )

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> RealArray:
        """The table, in column-major order: a copy always."""
        if copy is False:
            raise ValueError("columns that lie apart become a table only by a copy")
        return np.array(self.arrays, dtype=dtype).T
