"""Public bounds of each feature, and the integer grid for all later computations.

Departs from the paper: data are scaled by public bounds, not by their own extremes. If extremes
were used, one record could move all other records. Data also become integers here, before the
radius test. In the paper each client's sum is rounded later.

A record is clipped to the bounds, scaled to [-1, 1] in each feature, and rounded half up to a
multiple of 2**-q. The result depends only on the record and on public settings. So a change of one
record changes exactly one grid point, and the sensitivity of an answer can be computed from grid
points.
"""

import enum
import math
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastlloyd.base.arrays import FloatArray, GridArray, IntArray, fixed
from fastlloyd.base.compiling import is_compiled
from fastlloyd.base.names import listing
from fastlloyd.clustering.bound_checks import UNUSABLE_BOUNDS, _check_bounds, _check_steps, _floats
from fastlloyd.clustering.gridding import (
    BLOCK_ELEMENTS,
    FEW_FEATURES,
    compiled_columns,
    compiled_grid,
    is_by_feature,
)
from fastlloyd.clustering.outside import OutsideMarks
from fastlloyd.clustering.parallel import over_spans
from fastlloyd.errors import DataError, PlanError
from fastlloyd.records.declared import ANOTHER_ORDER
from fastlloyd.records.in_memory import matrix, names_of, taken_over
from fastlloyd.records.recipe.feature import Feature
from fastlloyd.records.recipe.scales import Scale
from fastlloyd.records.recipe.together import columns_of, feature_set_faults
from fastlloyd.records.recipe.ways import GridColumn
from fastlloyd.records.table import ColumnBlock

# integers below 2**53 are exact in float64, and so are sums and products that stay below it
EXACT_BITS = 53


def _integers(values: FloatArray) -> tuple[list[int], int]:
    """Return floats in a common unit, in which they are integers, and 1 in this unit."""
    ratios = [value.as_integer_ratio() for value in values.tolist()]
    one = max(denominator for _, denominator in ratios)  # powers of 2
    return [numerator * (one // denominator) for numerator, denominator in ratios], one


@cache
def finest_bits(n_features: int) -> int:
    """Return the largest fraction_bits, up to 32, for which squared distances are exact, or 0.

    0 means that no number of bits suffices for this number of features.
    """
    return max((q for q in range(1, 33) if n_features * (2 << q) ** 2 < 1 << EXACT_BITS), default=0)


class Scaling(enum.Enum):
    """Scaling of original units to the domain [-1, 1]^d."""

    # every feature fills [-1, 1] by its own bounds (Section 6.1.3 of the paper)
    PER_FEATURE = "per-feature"
    COMMON = "common"  # one factor for all: Euclidean distances of the original units are kept


class Domain(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    cache_hash=True,
    dict=True,
):
    """Public bounds of each feature, and the grid of step 2**-fraction_bits.

    Parameters
    ----------
    features : tuple of str
        Name of each feature.
    lower, upper : tuple of float
        Bounds in original units, finite, lower < upper. They must be public, and so be chosen
        without looking at the data.
    scaling : Scaling
        Scaling of original units to the domain.
    fraction_bits : int
        Number q of fraction bits. The half width 1 of the scaled domain is B = 2**q grid units.

    Raises
    ------
    PlanError
        For bounds of the wrong length, reversed, equal or not finite, for repeated or unprintable
        names, and for a grid too fine for exact arithmetic.

    Examples
    --------
    >>> from fastlloyd import Domain
    >>> domain = Domain(features=("age", "dose"), lower=(0.0, 0.0), upper=(100.0, 5.0))
    >>> domain.to_grid([[50.0, 5.0]]).tolist()
    [[0, 65536]]
    """

    features: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    scaling: Scaling = Scaling.PER_FEATURE
    fraction_bits: int = 16
    recipe: tuple[Feature, ...] | None = None

    def __post_init__(self) -> None:
        d = len(self.features)
        if d == 0:
            raise PlanError("the domain has no features; name at least one")
        if len(set(self.features)) != d:
            repeated = next(name for name in self.features if self.features.count(name) > 1)
            raise PlanError(
                f"feature {repeated!r} is named twice; every feature needs a name of its own"
            )
        if len(self.lower) != d or len(self.upper) != d:
            raise PlanError(
                f"bounds are given for {len(self.lower)} lower and {len(self.upper)} upper ends,"
                f" but there are {d} features; give one lower and one upper bound per feature"
            )
        # hashed, with the plan they stand in
        msgspec.structs.force_setattr(self, "features", tuple(self.features))
        # an int or a NumPy float would be written to a file in another spelling than the one that
        # is read back
        msgspec.structs.force_setattr(self, "lower", _floats(self.lower))
        msgspec.structs.force_setattr(self, "upper", _floats(self.upper))
        for name, low, high in zip(self.features, self.lower, self.upper, strict=True):
            # names are shown to people who decide by what they read; line breaks and terminal codes
            # could show another text
            if not name.isprintable() or len(name) > 200:
                raise PlanError(
                    f"feature name {name!r:.80} is not usable; expected at most 200 printable"
                    " characters"
                )
            _check_bounds(name, low, high)
        if (
            type(self.fraction_bits) is not int
        ):  # NumPy's integers would wrap around in the test of exactness below
            raise PlanError(
                f"fraction_bits is {self.fraction_bits!r:.40}; expected a Python int, 1 to 32"
            )
        if not 1 <= self.fraction_bits <= 32:
            raise PlanError(f"fraction_bits is {self.fraction_bits!s:.40}; expected 1 to 32")
        if self.fraction_bits > finest_bits(d):
            raise PlanError(
                f"fraction_bits {self.fraction_bits} is too large for exact arithmetic with {d}"
                f" features; use fraction_bits {finest_bits(d)} or less"
            )
        if self.recipe is not None:
            msgspec.structs.force_setattr(self, "recipe", tuple(self.recipe))
            self._check_recipe(self.recipe)
        self._check_units()

    def _check_recipe(self, recipe: tuple[Feature, ...]) -> None:
        for fault in feature_set_faults(recipe):
            raise fault
        columns = columns_of(recipe)
        stated = list(zip(self.features, self.lower, self.upper, strict=True))
        if stated != [(each.name, each.lower, each.upper) for each in columns]:
            raise PlanError(
                "the features of the domain are not the columns of its recipe; make the plan anew"
                " from the recipe"
            )

    def _check_units(self) -> None:
        if not self.half_widths.all():
            narrow = self.features[int(np.argmin(self.half_widths))]
            raise PlanError(
                f"feature {narrow!r} is narrower than one grid unit of the widest feature; "
                'use scaling "per-feature", more fraction_bits, or leave it out'
            )
        for feature in zip(self.features, self.lower, self.upper, self.units, strict=True):
            _check_steps(*feature)

    @classmethod
    def of_bounds(
        cls,
        features: Sequence[str],
        lower: FloatArray,
        upper: FloatArray,
        *,
        scaling: Scaling,
        fraction_bits: int = 16,
    ) -> "Domain":
        """Return the domain with these public bounds, float64 (n_features,)."""
        ends = {"lower": tuple(lower.tolist()), "upper": tuple(upper.tolist())}
        return cls(features=tuple(features), **ends, scaling=scaling, fraction_bits=fraction_bits)

    @classmethod
    def of_recipe(
        cls, recipe: Sequence[Feature], *, scaling: Scaling, fraction_bits: int = 16
    ) -> "Domain":
        """Return the domain of a recipe's features. Raises PlanError if two columns have the same
        name, or if a feature is too narrow for the grid.
        """
        columns = columns_of(recipe)
        return cls(
            features=tuple(each.name for each in columns),
            lower=tuple(each.lower for each in columns),
            upper=tuple(each.upper for each in columns),
            scaling=scaling,
            fraction_bits=fraction_bits,
            recipe=tuple(recipe),
        )

    @classmethod
    def of_data(
        cls,
        features: Sequence[str],
        lower: FloatArray,
        upper: FloatArray,
        *,
        scaling: Scaling,
        fraction_bits: int = 16,
    ) -> "Domain":
        """Return a domain whose bounds, float64 (n_features,), are values of records.

        Raises DataError if they cannot be bounds, and PlanError as the constructor does. A message
        names the feature and shows no value.
        """
        try:
            return cls.of_bounds(
                features, lower, upper, scaling=scaling, fraction_bits=fraction_bits
            )
        except PlanError as error:
            if error.code != UNUSABLE_BOUNDS:
                raise
            name = error.field
        raise DataError(
            f"the values of column {name!r} lie too far apart or too close together to take bounds"
            " from them; state bounds, or rescale the column",
            code=UNUSABLE_BOUNDS,
            field=name,
        )

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return len(self.features)

    @property
    def _widths(self) -> FloatArray:
        return np.array(self.upper, dtype=np.float64) - np.array(self.lower, dtype=np.float64)

    @cached_property
    def half_widths(self) -> IntArray:
        """Half width B of each feature in grid units, int64 (n_features,).

        It is 2**q, or less for narrow features with common scaling and for features of less weight.
        """
        B = 1 << self.fraction_bits
        reaches, largest = _integers(self.weights)
        if self.scaling is Scaling.COMMON:
            widths, _ = _integers(self._widths)
            reaches = [weight * width for weight, width in zip(reaches, widths, strict=True)]
            largest = max(reaches)
        # halves go down: `to_grid` rounds them up, so that half a unit above -B_i no record could
        # reach -B_i itself
        halves = [-((largest - 2 * B * reach) // (2 * largest)) for reach in reaches]
        return fixed(np.array(halves, dtype=np.int64))

    @cached_property
    def columns(self) -> tuple[GridColumn, ...]:
        """Columns of the grid: those of the recipe, or one with weight 1 for each feature."""
        if self.recipe is not None:
            return columns_of(self.recipe)
        return tuple(
            GridColumn(name, lower, upper, 1.0, Scale.LINEAR)
            for name, lower, upper in zip(self.features, self.lower, self.upper, strict=True)
        )

    @property
    def weights(self) -> FloatArray:
        """Factor of the distances along each feature, float64 (n_features,)."""
        return np.array([column.weight for column in self.columns])

    @cached_property
    def saturation(self) -> int:
        """Largest absolute coordinate of a centroid in grid units, c_max.

        It is the largest power of two with d (B + c_max)^2 < 2**53, where B = 2**q. So squared
        distances are exact in float64.
        """
        d, B = self.n_features, 1 << self.fraction_bits
        c = B
        while d * (B + 2 * c) ** 2 < 1 << EXACT_BITS:
            c *= 2
        return c

    @cached_property
    def squared_half_diagonal(self) -> int:
        """Largest squared L2 norm of a grid point, the sum of B_i^2 (int)."""
        return sum(b**2 for b in self.half_widths.tolist())

    @cached_property
    def units(self) -> FloatArray:
        """Size of one grid unit of each feature in original units, float64 (n_features,)."""
        weights, widths = self.weights, self._widths
        length = widths if self.scaling is Scaling.PER_FEATURE else (weights * widths).max()
        return fixed(length / weights / (2 << self.fraction_bits))

    @cached_property
    def centre(self) -> FloatArray:
        """Middle of the bounds in original units, float64 (n_features,)."""
        return fixed(np.array(self.lower) + self._widths / 2)

    def to_grid(self, X: ArrayLike | ColumnBlock) -> GridArray:
        """Return the grid points of records, int32 (n, n_features).

        Their memory order is the best one for `kernels`. Values outside the bounds are clipped to
        them.

        X : real numbers (n, n_features), of any dtype and memory order. Equal real values give
            equal grid points.

        Raises DataError for another shape, NaN or infinity.
        """
        return self.to_grid_and_outside(X)[0]

    def to_grid_and_outside(self, X: ArrayLike | ColumnBlock) -> tuple[GridArray, OutsideMarks]:
        """Return the grid points of records as `to_grid` does, and marks of values outside the
        bounds.

        The marks depend on the records, as the grid points do. Do not publish the marks.
        """
        frame = self._frame()
        if isinstance(X, ColumnBlock):
            marks = OutsideMarks.none(*X.shape)
            if (found := self._columns_to_grid(X, marks)) is not None:
                return found, marks
        table = self._table(np.asarray(X) if isinstance(X, ColumnBlock) else X)
        grid = np.empty(table.shape, dtype=np.int32, order="F" if is_by_feature(table) else "C")
        marks = OutsideMarks.none(*table.shape)
        if not (is_compiled(table.size) and compiled_grid(table, frame, grid, marks)):
            marks = OutsideMarks.none(*table.shape)
            self._plain_grid(table, frame, grid, marks)
        return grid, marks

    def _columns_to_grid(self, X: ColumnBlock, marks: OutsideMarks) -> GridArray | None:
        """Return the grid points of a block, computed by compiled code, or None.

        None means that no code is compiled for such a block, or that a value is not finite.
        """
        if not (
            X.shape[1] == self.n_features <= FEW_FEATURES
            and X.is_plain
            and is_compiled(math.prod(X.shape))
        ):
            return None
        grid = np.empty(X.shape, dtype=np.int32, order="F")
        return grid if compiled_columns(X.arrays, self._frame(), grid, marks) else None

    def check_grid(self, X: GridArray) -> None:
        """Raise DataError unless X contains grid points of this domain.

        Sensitivities are right only for points within the bounds. The message shows no value.

        X : int32 or int64 (n, n_features), as `to_grid` makes it.
        """
        if (
            type(X) is not np.ndarray
            or X.dtype not in (np.int32, np.int64)
            or X.ndim != 2
            or X.shape[1] != self.n_features
        ):
            raise DataError(
                f"the records are not an int32 or int64 array with {self.n_features} columns; use"
                " Domain.to_grid"
            )
        if len(X) and not self._is_within(X):
            raise DataError(
                "a record lies outside the bounds of the domain; use Domain.to_grid, which clips"
            )

    def from_grid(self, points: IntArray) -> FloatArray:
        """Return grid points (n, n_features) in original units, float64."""
        return np.asarray(points * self.units + self.centre, dtype=np.float64)

    def _frame(self) -> FloatArray:
        return np.array(
            [self.lower, self.upper, self.centre, self.units, self.half_widths], dtype=np.float64
        )

    def _is_within(self, X: GridArray) -> bool:
        B = self.half_widths
        if X.flags.c_contiguous and (B[0] == B).all():  # all coordinates as if of one feature
            X, B = X.reshape(-1, 1), B[:1]
        if X.dtype == np.int32 and X.flags.f_contiguous and is_compiled(X.size):
            from fastlloyd.clustering.compiled.grid import is_within

            return all(over_spans(lambda start, stop: is_within(X.T, start, stop, B), X))
        return bool((X.max(axis=0) <= B).all() and (X.min(axis=0) >= -B).all())

    def _table(self, X: ArrayLike) -> NDArray[Any]:
        """Return X as an array of the right shape, not yet converted to float64.

        Raises DataError if X has other columns, or another order of them. The message shows no
        value.
        """
        what = "the table of records"
        X = taken_over(X, what)
        names = names_of(X, what)
        if names is not None and names != self.features:
            raise DataError(
                (
                    f"{what} has the columns {listing(names)}; expected {listing(self.features)},"
                    " in this order"
                ),
                code=ANOTHER_ORDER,
            )
        table = matrix(X, what)
        if table.ndim != 2 or table.shape[1] != self.n_features:
            raise DataError(
                f"the records are a table of {table.ndim} dimensions with"
                f" {table.shape[-1] if table.ndim else 0} columns; expected (n_records,"
                f" {self.n_features}), one column per feature"
            )
        return table

    def _plain_grid(
        self, table: NDArray[Any], frame: FloatArray, grid: NDArray[np.int32], marks: OutsideMarks
    ) -> None:
        """Set the grid points and the marks, block by block.

        Raises DataError at the first value that is not finite.
        """
        lower, upper, centre, units, box = frame
        rows = max(1, BLOCK_ELEMENTS // self.n_features)
        # long loops, whatever the table's order
        memory = np.empty((min(rows, len(table)), self.n_features), order="F")
        for start in range(0, len(table), rows):
            values = memory[: len(table) - start]
            with np.errstate(
                over="ignore"
            ):  # what is too large for float64 becomes infinite, and is named below
                values[...] = table[start : start + rows]
            if not (finite := np.isfinite(values)).all():
                row, column = (int(i) for i in np.argwhere(~finite)[0])
                raise DataError(
                    f"record {start + row}, feature {self.features[column]!r} is NaN or infinite;"
                    " remove the record or fill the value in"
                )
            outside = (values < lower) | (values > upper)
            marks.records[start : start + rows] = outside.any(axis=1)
            marks.counts[:] += outside.sum(axis=0)
            # one subtraction, one division, one addition per value: correctly rounded, so the same
            # on every machine
            np.clip(values, lower, upper, out=values)
            np.subtract(values, centre, out=values)
            np.divide(values, units, out=values)
            np.add(values, 0.5, out=values)
            np.floor(values, out=values)
            np.clip(values, -box, box, out=values)
            grid[start : start + rows] = values
