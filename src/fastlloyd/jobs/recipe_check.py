"""Exact counts of what a recipe does with a file, for the owner of the file's records."""

from dataclasses import dataclass, field

import numpy as np

from fastlloyd.records import Missing, open_records
from fastlloyd.records.recipe.rows import Using
from fastlloyd.records.text_cells import CellBlock


@dataclass(slots=True)
class FeatureCounts:
    """Exact counts of rows for one feature. Do not publish them.

    missing : number of rows whose cell is missing.
    unknown : number of rows whose text the recipe does not know.
    outside : number of rows with a value outside the bounds.
    """

    missing: int = 0
    unknown: int = 0
    outside: int = 0


@dataclass(slots=True)
class RecipeCheck:
    """Exact counts of rows for a file. Do not publish them.

    n_rows : number of all rows.
    features : counts of each feature, by its key.
    """

    n_rows: int = 0
    features: dict[str, FeatureCounts] = field(default_factory=dict)


def check_recipe(using: Using, path: str, unit: str | None = None) -> RecipeCheck:
    """Return the counts of a file. Raises DataError for a cell of a wrong kind.

    unit : name of the column of the ids, or None.
    """
    file = open_records(
        path,
        using.names,
        missing=Missing.DROP,
        unit=unit,
        text_columns=using.text_names,
        layout=using.here.layout,
    )
    found = RecipeCheck(features={feature.key: FeatureCounts() for feature, _ in using.used})
    for block in file.cell_blocks():
        found.n_rows += len(block)
        _add(found, using, block, file.columns)
    return found


def _add(found: RecipeCheck, using: Using, block: CellBlock, columns: tuple[str, ...]) -> None:
    cells = using.cells(block, columns)
    for feature, way in using.used:
        counts, seen = found.features[feature.key], way.found(cells, using.form)
        counts.unknown += int(np.count_nonzero(seen.unknown))
        counts.missing += int(np.count_nonzero(np.isnan(seen.values) & ~seen.unknown))
        outside = np.zeros(len(block), dtype=bool)
        for column, values in zip(way.columns, way.numbers(seen.values), strict=True):
            number = column.clustered(values)
            outside |= (number < column.lower) | (number > column.upper)
        counts.outside += int(np.count_nonzero(outside))
