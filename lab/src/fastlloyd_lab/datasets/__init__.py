"""Public data sets for experiments: named sets, and generated sets."""

from fastlloyd_lab.datasets.catalogue import CATALOGUE, DataSet, values_digest
from fastlloyd_lab.datasets.named import load, n_clusters, names

__all__ = ["CATALOGUE", "DataSet", "load", "n_clusters", "names", "values_digest"]
