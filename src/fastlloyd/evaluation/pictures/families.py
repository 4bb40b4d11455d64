"""Families of generated sets: those whose names differ in numbers only, and how their shapes vary."""

from collections import defaultdict
from dataclasses import dataclass

from fastlloyd.errors import DataError
from fastlloyd.evaluation.pictures.summaries import DataSet, Summaries


@dataclass(frozen=True, slots=True)
class Family:
    """Sets of one family, such as all of synth-K-D-R."""

    name: str
    sets: tuple[DataSet, ...]

    def sizes(self, axis: str) -> list[int]:
        """The values that n_features or n_clusters takes, ascending."""
        return sorted({getattr(each, axis) for each in self.sets})

    def single_axis(self) -> str:
        """Which of n_features and n_clusters varies, if it is exactly one of them."""
        varying = [axis for axis in ("n_features", "n_clusters") if len(self.sizes(axis)) > 1]
        return varying[0] if len(varying) == 1 else ""

    def by_size(self, axis: str) -> dict[int, list[DataSet]]:
        """The sets of each size: those that differ in their seed or separation only."""
        return {size: [each for each in self.sets if getattr(each, axis) == size] for size in self.sizes(axis)}

    def of_shape(self, n_clusters: int, n_features: int) -> list[DataSet]:
        """The sets with these numbers of clusters and dimensions."""
        return [each for each in self.sets if (each.n_clusters, each.n_features) == (n_clusters, n_features)]


def families(summaries: Summaries) -> list[Family]:
    """All families of an experiment, by name."""
    found: dict[str, list[DataSet]] = defaultdict(list)
    for each in summaries.datasets.values():
        if each.family and each.n_clusters:
            found[each.family].append(each)
    return [Family(name, tuple(sets)) for name, sets in sorted(found.items())]


def main_measure(summaries: Summaries) -> str:
    """NICV, as in the paper, or else the first measure there is. Raises DataError if every trial failed."""
    if not summaries.measures:
        raise DataError("every trial failed, so there is nothing to draw; `fastlloyd experiment table` lists why")
    return summaries.measures[0]
