"""Labels of rows and entries in pandas objects.

Labels are compared. Labelled data with other labels are refused, never matched by position.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastlloyd.errors import DataError
from fastlloyd.records.declared import ANOTHER_ORDER


def labels_of(values: Any) -> list[Any] | None:
    """Return the labels of a pandas Series, or None.

    None means that there are no labels, or that they only count from 0.
    """
    index = getattr(values, "index", None)
    # sequences of Python have a method of that name
    if index is None or callable(index) or getattr(values, "ndim", 1) != 1:
        return None
    labels = list(index)
    return None if labels == list(range(len(labels))) else labels


def refuse_other_rows(X: Any, values: Any, what: str) -> None:
    """Raise DataError if the labels (index) of the entries differ from those of X, or show another
    order of the rows.

    values : entries, one for each row of X.
    what : name of the entries, for the error message.
    """
    if (index := getattr(values, "index", None)) is None or callable(index):
        return
    if hasattr(X, "iloc"):
        fault = "" if X.index.equals(index) else f"X and {what} have different indexes"
    else:
        labels = labels_of(values) or []
        numbers = all(isinstance(label, int | np.integer) for label in labels)
        fault = ""
        if labels and numbers and sorted(labels) == list(range(len(labels))):
            fault = f"X has no index, but the index of {what} numbers the rows in another order"
    if fault:
        raise DataError(
            (
                f"{fault}; pass {what}.loc[X.index] or, if they are in the order of the rows,"
                f" {what}.to_numpy()"
            ),
            code=ANOTHER_ORDER,
        )
