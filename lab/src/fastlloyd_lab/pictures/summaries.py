"""Summarise the rows of trials: means over runs with 95% intervals, areas under curves, and ratios
to a method.

As in the paper, failed trials and values that are not finite are left out of means, and their
number is stated. An example of such a value is the Davies-Bouldin index of a single cluster. Runs
are identified by their number: in runs with the same number, all methods start from the same
centroids.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

import numpy as np
from scipy.special import stdtrit

from fastlloyd.errors import DataError
from fastlloyd_lab.experiments.reading import Results, Row

CONFIDENCE = 0.95
BASELINE = "sulloyd"
LABELS = {"lloyd": "Lloyd", "sulloyd": "SuLloyd", "glloyd": "GLloyd", "fastlloyd": "FastLloyd"}
"""The methods of the paper, in the order in which it lists them."""
# the name of a family, then numbers
_FAMILY = re.compile(r"([a-z][a-z0-9]*?)-(?=\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Mean, half width of its 95% interval, and median of n values.

    The half width is NaN for fewer than two values. All three numbers are NaN if there are no
    values.
    """

    n: int
    mean: float
    half_width: float
    median: float
    n_failed: int = 0
    n_infinite: int = 0

    @property
    def low(self) -> float:
        """Lower end of the interval, or the mean if there is no interval."""
        return self.mean - (0.0 if math.isnan(self.half_width) else self.half_width)

    @property
    def high(self) -> float:
        """Upper end of the interval, or the mean if there is no interval."""
        return self.mean + (0.0 if math.isnan(self.half_width) else self.half_width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Finite values of a measure, by the index of their run.

    n_failed, n_infinite : number of runs that failed, and number of runs with an infinite value.
    lost : indices of the runs without a value.
    """

    by_run: Mapping[int, float]
    n_failed: int = 0
    n_infinite: int = 0
    lost: frozenset[int] = frozenset()

    @property
    def n(self) -> int:
        """Number of values."""
        return len(self.by_run)

    def summary(self) -> Summary:
        """Mean with Student's interval over runs, and median."""
        values = np.array(list(self.by_run.values()), dtype=np.float64)
        n = len(values)
        return Summary(
            n=n,
            mean=float(values.mean()) if n else math.nan,
            half_width=(
                float(_student(n) * values.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
            ),
            median=float(np.median(values)) if n else math.nan,
            n_failed=self.n_failed,
            n_infinite=self.n_infinite,
        )


def _student(n: int) -> float:
    """Return half of the 95% interval of a mean of n values, in standard errors: Student's t with n
    - 1 degrees of freedom.
    """
    return float(stdtrit(n - 1, (1 + CONFIDENCE) / 2))


def area(epsilons: Sequence[float], values: Sequence[float]) -> float:
    """Return the area under the curve through the points, by the trapezoid rule (Section 5 of the
    paper).
    """
    steps = zip(values, values[1:], epsilons, epsilons[1:], strict=False)
    return sum((left + right) / 2 * (end - start) for left, right, start, end in steps)


def relative(sample: Sample, reference: Sample) -> Summary:
    """Return the ratio of two means, with its 95% interval by the delta method.

    A run that failed in one sample is left out of both, because a run that is hard for one method
    may be hard for the other. A run that only one sample has is kept. Otherwise both means might be
    taken over few runs, and vary much.

    Let r be the ratio of the means, and a and b the deviations of the means from their true values.
    To first order, the error of r is (a - r b) / (mean of the reference). Variation that a run
    shares with the same run of the reference cancels. Student's t has the degrees of freedom of the
    sample with fewer runs. The median is the median of the ratios of single runs. Only runs with a
    value in both samples, and with a reference that is not 0, have a ratio.
    """
    a = {run: value for run, value in sample.by_run.items() if run not in reference.lost}
    b = {run: value for run, value in reference.by_run.items() if run not in sample.lost}
    counts = {"n": len(a) if b else 0, "n_failed": sample.n_failed, "n_infinite": sample.n_infinite}
    mean_a, mean_b = (
        float(np.mean([*values.values()])) if values else math.nan for values in (a, b)
    )
    if math.isnan(mean_a) or math.isnan(mean_b) or mean_b == 0:
        return Summary(mean=math.nan, half_width=math.nan, median=math.nan, **counts)
    ratio, fewest = mean_a / mean_b, min(len(a), len(b))
    errors = [
        (a.get(run, mean_a) - mean_a) / len(a) - ratio * (b.get(run, mean_b) - mean_b) / len(b)
        for run in a.keys() | b.keys()
    ]
    variance = (
        math.fsum(error**2 for error in errors) * fewest / (fewest - 1) if fewest > 1 else math.nan
    )
    ratios = [a[run] / b[run] for run in a.keys() & b.keys() if b[run]]
    return Summary(
        mean=ratio,
        half_width=_student(fewest) * math.sqrt(variance) / abs(mean_b),
        median=float(np.median(ratios)) if ratios else math.nan,
        **counts,
    )


def pooled(samples: Sequence[Sample]) -> Sample:
    """Return one sample for several data sets. The value of a run is the mean of its values on all
    data sets.

    Runs that are missing on some data set are left out.
    """
    return _run_by_run(samples, lambda values: float(np.mean(values)), sum)


def _run_by_run(
    samples: Sequence[Sample],
    value: Callable[[list[float]], float],
    count: Callable[[Iterable[int]], int],
) -> Sample:
    """Return one sample made of several: for each run, a value computed from the values of all
    samples.

    value : function that computes the value of a run.
    count : function that combines the samples' numbers of omitted trials.

    A run that is missing in one of the samples is left out.
    """
    shared = set.intersection(*(set(sample.by_run) for sample in samples)) if samples else set()
    return Sample(
        by_run={run: value([sample.by_run[run] for sample in samples]) for run in sorted(shared)},
        n_failed=count(sample.n_failed for sample in samples),
        n_infinite=count(sample.n_infinite for sample in samples),
        lost=frozenset().union(*(sample.lost for sample in samples)),
    )


@dataclass(frozen=True, slots=True, order=True)
class Variant:
    """One line of a figure: a method, the swept options that it took, and the number of clients."""

    method: str
    options: tuple[tuple[str, str], ...] = ()
    clients: int = 1

    def option(self, name: str) -> str:
        """Return the value of an option as text, or "" if the method does not take it."""
        return dict(self.options).get(name, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """Data set with its name and its shape."""

    name: str
    n_records: int
    n_features: int
    n_clusters: int

    @property
    def family(self) -> str:
        """Word before the numbers in the name of a generated set, such as "synth" in synth-4-8-1,
        or "" for other sets.
        """
        found = _FAMILY.match(self.name)
        return found[1] if found else ""


@dataclass(frozen=True, slots=True)
class Summaries:
    """All trials of an experiment by data set, variant, epsilon and run."""

    results: Results
    datasets: dict[str, DataSet] = field(default_factory=dict)
    variants: list[Variant] = field(default_factory=list)
    _rows: dict[tuple[str, Variant], dict[float, dict[int, Row]]] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Results) -> "Summaries":
        """Return the summaries of the rows in a folder.

        A central method has one client, whatever its rows say. If several rows then belong to one
        trial, the first is kept.
        """
        index: dict[tuple[str, Variant], dict[float, dict[int, Row]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        shapes: dict[str, DataSet] = {}
        for row in results.rows:
            clients = 1 if row.method in results.central else row.clients
            variant = Variant(row.method, row.options, clients)
            index[row.dataset, variant][row.epsilon].setdefault(row.run, row)
            if (
                row.dataset not in shapes or not shapes[row.dataset].n_clusters
            ):  # 0: it failed before the set was known
                shapes[row.dataset] = DataSet(
                    name=row.dataset,
                    n_records=row.n_records,
                    n_features=row.n_features,
                    n_clusters=row.n_clusters,
                )
        return cls(
            results,
            shapes,
            sorted({v for _, v in index}, key=lambda v: (place(v.method, LABELS), v)),
            dict(index),
        )

    @property
    def main_measure(self) -> str:
        """Measure NICV, which is the paper's main measure, or the first measure if there is no
        NICV. Raises DataError if every trial failed.
        """
        if not (measures := self.results.measures):
            raise DataError(
                "every trial failed, so there is nothing to draw; `fastlloyd experiment table`"
                " lists why"
            )
        return measures[0]

    def variants_of(self, dataset: str) -> list[Variant]:
        """Return the variants that were run on a set."""
        return [variant for variant in self.variants if (dataset, variant) in self._rows]

    def is_private(self, variant: Variant) -> bool:
        """Return whether the variant's method uses epsilon."""
        return any(
            math.isfinite(e) for (_, v), found in self._rows.items() if v == variant for e in found
        )

    def epsilons(self, dataset: str | None = None) -> list[float]:
        """Return all finite epsilons of the runs on a data set, ascending.

        dataset : name of the data set, or None for all data sets.
        """
        every = {
            e for (name, _), found in self._rows.items() if dataset in (None, name) for e in found
        }
        return sorted(filter(math.isfinite, every))

    def sample(self, dataset: str, variant: Variant, epsilon: float, measure: str) -> Sample:
        """Return the sample of a measure at one epsilon. A method without privacy has the same
        sample at every epsilon.
        """
        found = self._rows.get((dataset, variant), {})
        rows = found[math.inf] if math.inf in found else found.get(epsilon, {})
        values = {
            run: row.measures[measure]
            for run, row in sorted(rows.items())
            if measure in row.measures
        }
        finite = {run: value for run, value in values.items() if math.isfinite(value)}
        failed = {run for run, row in rows.items() if row.error}
        infinite = values.keys() - finite.keys()
        return Sample(
            by_run=finite,
            n_failed=len(failed),
            n_infinite=len(infinite),
            lost=frozenset(failed | infinite),
        )

    def areas(self, dataset: str, variant: Variant, measure: str) -> Sample:
        """Return, for each run, the area under the curve of a measure by epsilon, over all epsilons
        of the set.

        Runs without a value at some epsilon are left out. n_failed and n_infinite count the runs
        with a failed trial, or an infinite value, at any epsilon. The sample is empty if there are
        fewer than two epsilons.
        """
        epsilons = self.epsilons(dataset)
        if len(epsilons) < 2:
            return Sample(by_run={})
        curves = [self.sample(dataset, variant, epsilon, measure) for epsilon in epsilons]
        return _run_by_run(curves, lambda values: area(epsilons, values), max)

    def reference(self, variant: Variant) -> Variant | None:
        """Return the variant of the baseline that has the most options in common with this variant,
        or None without a baseline.
        """
        return max(
            (each for each in self.variants if each.method == BASELINE),
            key=lambda each: (
                each.clients == variant.clients,
                len(set(each.options) & set(variant.options)),
            ),
            default=None,
        )

    def method_label(self, method: str) -> str:
        """Return the label that figures show for the method with this name in results."""
        return self.results.labels.get(method) or LABELS.get(method, method)

    def label(self, variant: Variant) -> str:
        """Return the label of a line: the method, and the options and clients in which its variants
        differ.
        """
        name = self.method_label(variant.method)
        same = [each for each in self.variants if each.method == variant.method]
        varying = [
            f"{option.replace('_', ' ')} {text}"
            for option, text in variant.options
            if len({each.option(option) for each in same}) > 1
        ]
        if len({each.clients for each in same}) > 1:
            varying.append(f"{variant.clients} client{'s' if variant.clients > 1 else ''}")
        return f"{name} ({', '.join(varying)})" if varying else name


def place(name: str, known: Iterable[str]) -> int:
    """Return the position of a name among the known names. All other names come after them."""
    order = list(known)
    return order.index(name) if name in order else len(order)


def over_sets(results: Results) -> Results:
    """Return results with a single data set, "mean of N sets".

    For each combination of method, options, epsilon and run, it has the mean over all sets. A run
    that a set lacks, or that failed on a set, is left out, and a note states the number of such
    runs.
    """
    names = {row.dataset for row in results.rows}
    rows_of: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in results.rows:
        rows_of[row.method, row.options, row.clients, row.epsilon, row.run].append(row)
    whole = [
        rows
        for rows in rows_of.values()
        if len(rows) == len(names) and not any(row.error for row in rows)
    ]
    lacking = len(rows_of) - len(whole)
    note = (
        f"{lacking:,} of {len(rows_of):,} means over {len(names):,} sets lack a set, or a trial"
        " failed; they are left out"
    )
    return replace(
        results,
        rows=tuple(_mean(rows, f"mean of {len(names):,} sets") for rows in whole),
        notes=(*results.notes, *([note] if lacking else [])),
    )


def _mean(rows: list[Row], name: str) -> Row:
    measures = {
        measure: fmean(row.measures[measure] for row in rows)
        for measure in rows[0].measures
        if all(measure in row.measures for row in rows)
    }
    return replace(
        rows[0], dataset=name, n_records=0, n_features=0, n_clusters=0, measures=measures
    )
