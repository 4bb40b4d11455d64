"""Public data sets for demonstrations and experiments: two that ship with scikit-learn, and named ones in a folder."""

from fastlloyd.datasets.bundled import IRIS_BOUNDS, TUMOUR_BOUNDS, load_iris, load_tumours
from fastlloyd.datasets.named import load, n_clusters, names

__all__ = ["IRIS_BOUNDS", "TUMOUR_BOUNDS", "load", "load_iris", "load_tumours", "n_clusters", "names"]
