"""Public data sets for demonstrations and experiments: bundled, named and generated ones."""

from fastlloyd.evaluation.datasets.catalogue import CATALOGUE, DataSet, values_digest
from fastlloyd.evaluation.datasets.named import (
    IRIS_BOUNDS,
    TUMOUR_BOUNDS,
    load,
    load_iris,
    load_tumours,
    n_clusters,
    names,
)

__all__ = [
    "CATALOGUE",
    "IRIS_BOUNDS",
    "TUMOUR_BOUNDS",
    "DataSet",
    "load",
    "load_iris",
    "load_tumours",
    "n_clusters",
    "names",
    "values_digest",
]
