"""Number of values that a recipe fills in for missing ones. The number is exact: do not publish
it.
"""

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from fastlloyd.records.layout import Layout
from fastlloyd.records.person_rows import records_of_persons
from fastlloyd.records.reading import STANDARD_INPUT, open_records
from fastlloyd.records.recipe.checks import DROP, ORDER, REFUSE
from fastlloyd.records.recipe.feature import Feature
from fastlloyd.records.recipe.rows import Using


def filled(
    path: str, using: Using, unit_column: str | None = None, layout: Layout | None = None
) -> dict[str, int] | None:
    """Return the number of values that the recipe fills in, for each feature, by its key. One pass
    is made. Do not publish the numbers. For a source that can be read only once, return None.

    Records, or persons, that the recipe drops are not counted.

    path, layout : as in `open_records`.
    using : features of the recipe.
    unit_column : name of the column of the ids, or None.
    """
    if path == STANDARD_INPUT or Path(path).is_fifo():
        return None
    kept = replace(using, features=tuple(map(_left_open, using.features)))
    file = open_records(path, unit=unit_column, recipe=kept, layout=layout)
    keys = [feature.key for feature, way in using.used for _ in way.columns]
    drops = {feature.key for feature, _ in using.used if feature.missing == DROP}
    may_fill = (feature.key for feature, _ in using.used if feature.missing not in (DROP, REFUSE))
    counts = dict.fromkeys(may_fill, 0)
    for block in (
        [records_of_persons(file, kept)[0]] if using.is_per_person else file.blocks_with_gaps()
    ):
        gaps = dict(zip(keys, np.isnan(block).T, strict=True))  # a feature's columns agree
        is_kept = ~np.any([gaps[key] for key in drops] or [np.zeros(len(block), bool)], axis=0)
        for key in counts:
            counts[key] += int(np.count_nonzero(gaps[key] & is_kept))
    return counts


def _left_open(feature: Feature) -> Feature:
    """Return a feature that is not filled in: its missing values stay missing, unless it refuses
    them.
    """
    if feature.missing == REFUSE or feature.role == ORDER:
        return feature
    return msgspec.structs.replace(feature, missing=DROP)
