"""Tests of means, intervals, areas and ratios, against numbers computed by hand and in other
ways.
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from fastlloyd_lab.experiments.measures import in_order
from fastlloyd_lab.experiments.reading import Results, Row, read
from fastlloyd_lab.pictures.summaries import Sample, Summaries, Variant, area, pooled, relative
from made_up_results import EPSILONS, REAL, fail, rows, write

T_3 = 3.182446305  # Student's t, 3 degrees of freedom, 97.5%: from a printed table
VALUES = st.lists(st.floats(0.01, 100), min_size=2, max_size=20)


def _row(method: str, epsilon: float, run: int, nicv: float, **changes: object) -> Row:
    settings: dict[str, object] = {
        "dataset": "iris", "n_records": 150, "n_features": 4, "n_clusters": 3, "method": method, "epsilon": epsilon,
        "clients": 2, "run": run, "measures": {"nicv": nicv},
    }  # fmt: skip
    return Row(**(settings | changes))  # type: ignore[arg-type]  # tests replace single fields


def _summaries(*made: Row) -> Summaries:
    return Summaries.of(Results(title="", rows=made))


def test_mean_median_and_interval_are_those_worked_out_by_hand() -> None:
    """The values 1, 2, 3, 6 have the mean 3. The squared deviations are 4 + 1 + 0 + 9 = 14, so the
    standard error is sqrt(14/3)/2 = 1.0801.
    """
    summary = Sample(by_run=dict(enumerate([1.0, 2.0, 3.0, 6.0]))).summary()
    assert (summary.n, summary.mean, summary.median) == (4, 3.0, 2.5)
    assert summary.half_width == pytest.approx(T_3 * math.sqrt(14 / 3) / 2, rel=1e-8)
    assert (summary.low, summary.high) == (3.0 - summary.half_width, 3.0 + summary.half_width)


def test_one_value_has_no_interval_and_none_has_no_mean() -> None:
    one, none = Sample(by_run={0: 5.0}).summary(), Sample(by_run={}).summary()
    assert (one.mean, one.low, one.high) == (5.0, 5.0, 5.0)
    assert math.isnan(one.half_width)
    assert none.n == 0
    assert math.isnan(none.mean)
    assert math.isnan(none.median)


def test_the_area_is_that_of_trapezoids() -> None:
    """The points 0.1, 0.25 and 1 have the values 4, 2 and 1, so the area is 3 * 0.15 + 1.5 * 0.75 =
    1.575.
    """
    assert area([0.1, 0.25, 1.0], [4.0, 2.0, 1.0]) == pytest.approx(1.575)


@given(st.floats(0.1, 10), st.floats(-5, 5), st.floats(-5, 5))
def test_the_area_under_a_line_is_exact_wherever_it_is_cut(
    width: float, height: float, slope: float
) -> None:
    ends = np.array([0.0, 0.3, 0.5, 1.0]) * width
    assert area(ends.tolist(), (height + slope * ends).tolist()) == pytest.approx(
        height * width + slope * width**2 / 2
    )


def test_a_ratio_and_its_interval_are_those_worked_out_by_hand() -> None:
    """With a = 1, 3 and b = 2, 4, the ratio is r = 2/3, and a - r b = -1/3, 1/3. Their standard
    deviation is sqrt(2)/3. It is divided by sqrt(2) * 3, and multiplied by t(1) = 12.706.
    """
    ratio = relative(Sample(by_run={0: 1.0, 1: 3.0}), Sample(by_run={1: 4.0, 0: 2.0}))
    assert ratio.mean == pytest.approx(2 / 3)
    assert ratio.half_width == pytest.approx(12.7062047362 / 9, rel=1e-8)
    assert ratio.median == pytest.approx((1 / 2 + 3 / 4) / 2)


@given(VALUES, st.floats(0.1, 10))
def test_what_runs_have_in_common_cancels_in_a_ratio(values: list[float], factor: float) -> None:
    reference = Sample(by_run=dict(enumerate(values)))
    ratio = relative(
        Sample(by_run={run: factor * value for run, value in enumerate(values)}), reference
    )
    assert ratio.mean == pytest.approx(factor)
    assert ratio.half_width == pytest.approx(0, abs=1e-9 * factor * len(values))


@given(VALUES)
def test_the_interval_of_a_ratio_to_a_constant_is_the_interval_over_the_constant(
    values: list[float],
) -> None:
    sample = Sample(by_run=dict(enumerate(values)))
    ratio = relative(sample, Sample(by_run=dict.fromkeys(range(len(values)), 2.5)))
    assert ratio.mean == pytest.approx(sample.summary().mean / 2.5)
    assert ratio.half_width == pytest.approx(sample.summary().half_width / 2.5, abs=1e-12)


def test_each_mean_of_a_ratio_is_over_all_runs_there_are() -> None:
    """If the runs of a reference vary much, its mean is taken over all its runs, even if the method
    has only a few runs.

    The values are a = 1, 9, 2 and b = 2, 4, 6, 8. The last two runs of b have no partner. So r =
    4/5. By hand, the errors of the five runs are -3/3 + 3/4 r, 5/3, -2/3 + r/4, -r/4 and -3/4 r.
    Let s be the sum of their squares. The half width is t(2) sqrt(3 s / 2) / 5.
    """
    ratio = relative(
        Sample(by_run={0: 1.0, 7: 9.0, 1: 2.0}), Sample(by_run={0: 2.0, 1: 4.0, 2: 6.0, 3: 8.0})
    )
    squares = (-1 + 0.6) ** 2 + (5 / 3) ** 2 + (-2 / 3 + 0.2) ** 2 + 0.2**2 + 0.6**2
    assert ratio.n == 3
    assert ratio.mean == pytest.approx(0.8)
    assert ratio.half_width == pytest.approx(4.30265272991 * (1.5 * squares) ** 0.5 / 5, rel=1e-8)
    assert ratio.median == pytest.approx((1 / 2 + 2 / 4) / 2)


def test_a_run_that_one_side_lost_counts_for_neither() -> None:
    """The lost runs are the hard ones. If the other side kept them, a method would seem to be
    better than itself.
    """
    whole = Sample(by_run={0: 1.0, 1: 2.0, 2: 30.0, 3: 40.0})
    rest = Sample(by_run={0: 1.0, 1: 2.0}, n_failed=1, n_infinite=1, lost=frozenset({2, 3}))
    for ratio in (relative(rest, whole), relative(whole, rest)):
        assert (ratio.n, ratio.mean) == (2, 1.0)
        assert ratio.half_width == pytest.approx(0, abs=1e-12)


def test_which_runs_were_lost_is_known_of_samples_areas_and_pools() -> None:
    made = [_row("sulloyd", e, run, run + 1.0) for e in (0.5, 1.0) for run in range(4)]
    made[1] = replace(made[1], measures={}, error="it failed")
    made[6] = _row("sulloyd", 1.0, 2, math.inf)
    summaries, variant = _summaries(*made), Variant("sulloyd", (), 2)
    assert summaries.sample("iris", variant, 0.5, "nicv").lost == {1}
    assert summaries.sample("iris", variant, 1.0, "nicv").lost == {2}
    areas = summaries.areas("iris", variant, "nicv")
    assert areas.lost == {1, 2}
    assert areas.by_run.keys() == {0, 3}
    assert pooled([areas, Sample(by_run={0: 1.0}, lost=frozenset({3}))]).lost == {1, 2, 3}


def test_a_ratio_of_which_one_side_has_no_run_or_one_has_no_value_or_no_interval() -> None:
    assert relative(Sample(by_run={0: 1.0}), Sample(by_run={})).n == 0
    assert relative(Sample(by_run={}), Sample(by_run={0: 1.0})).n == 0
    apart = relative(Sample(by_run={0: 1.0}), Sample(by_run={1: 2.0}))
    assert (apart.n, apart.mean) == (1, 0.5)
    assert np.isnan([apart.half_width, apart.median]).all()


@given(st.floats(0.2, 5.0), st.integers(5, 20), st.integers(20, 60), st.integers(0, 2**32))
def test_fewer_runs_of_a_method_make_its_interval_no_narrower_than_the_variances_say(
    factor: float, few: int, many: int, seed: int
) -> None:
    """Without common runs, the interval is that of two independent means."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(1, 2, few) * factor, rng.uniform(1, 2, many)
    ratio = relative(
        Sample(by_run=dict(enumerate(a.tolist(), 1000))), Sample(by_run=dict(enumerate(b.tolist())))
    )
    r = a.mean() / b.mean()
    variance = (a.var() / few + r**2 * b.var() / many) * few / (few - 1) / b.mean() ** 2
    assert ratio.half_width == pytest.approx(stdtrit(few - 1, 0.975) * variance**0.5, rel=1e-9)


def test_sets_are_averaged_run_by_run_over_the_runs_that_all_have() -> None:
    both = pooled(
        [Sample(by_run={0: 1.0, 1: 2.0}, n_failed=1), Sample(by_run={1: 4.0, 2: 8.0}, n_infinite=2)]
    )
    assert both == Sample(by_run={1: 3.0}, n_failed=1, n_infinite=2)
    assert pooled([]) == Sample(by_run={})


def test_areas_are_taken_run_by_run_and_their_mean_is_the_area_under_the_means() -> None:
    made = [_row("sulloyd", e, run, (run + 1) / e) for e in (0.5, 1.0) for run in range(2)]
    areas = _summaries(*made).areas("iris", Variant("sulloyd", (), 2), "nicv")
    assert areas.by_run == {0: pytest.approx(0.75), 1: pytest.approx(1.5)}
    assert areas.summary().mean == pytest.approx(area([0.5, 1.0], [3.0, 1.5]))


def test_a_method_that_is_not_private_has_its_value_at_every_epsilon() -> None:
    found = _summaries(
        _row("lloyd", math.inf, 0, 2.0), _row("sulloyd", 0.5, 0, 1.0), _row("sulloyd", 1.0, 0, 1.0)
    )
    lloyd, sulloyd = Variant("lloyd", (), 1), Variant("sulloyd", (), 2)
    assert found.variants == [lloyd, sulloyd]
    assert [found.is_private(each) for each in found.variants] == [False, True]
    assert [found.sample("iris", lloyd, e, "nicv").by_run for e in found.epsilons("iris")] == [
        {0: 2.0}
    ] * 2
    assert found.areas("iris", lloyd, "nicv").by_run == {0: 1.0}


def test_failed_trials_and_infinite_values_are_left_out_and_counted() -> None:
    nothing: dict[str, float] = {}
    made = [_row("glloyd", e, run, 1.0 + run) for e in (0.5, 1.0) for run in range(4)]
    made[0] = _row("glloyd", 0.5, 0, 0.0, error="no", measures=nothing)
    made[1] = _row("glloyd", 0.5, 1, math.inf)
    found = _summaries(*made)
    variant = Variant("glloyd", (), 2)
    sample = found.sample("iris", variant, 0.5, "nicv")
    assert (sample.by_run, sample.n_failed, sample.n_infinite) == ({2: 3.0, 3: 4.0}, 1, 1)
    areas = found.areas("iris", variant, "nicv")
    assert (sorted(areas.by_run), areas.n_failed, areas.n_infinite) == ([2, 3], 1, 1)


def test_an_area_needs_a_value_at_every_epsilon_and_two_of_them() -> None:
    one = _summaries(_row("glloyd", 0.5, 0, 1.0))
    assert one.areas("iris", one.variants[0], "nicv").by_run == {}
    half = _summaries(
        _row("glloyd", 0.5, 0, 1.0), _row("glloyd", 1.0, 0, 1.0), _row("fastlloyd", 1.0, 0, 1.0)
    )
    assert half.areas("iris", Variant("fastlloyd", (), 2), "nicv").by_run == {}


def test_the_baseline_to_compare_with_is_the_one_with_as_many_clients() -> None:
    made = [
        _row(method, 1.0, 0, 1.0, clients=clients)
        for method in ("sulloyd", "fastlloyd")
        for clients in (1, 2, 8)
    ]
    found = _summaries(*made)
    assert found.reference(Variant("fastlloyd", (), 8)) == Variant("sulloyd", (), 8)
    assert _summaries(*made[3:]).reference(Variant("fastlloyd", (), 8)) is None
    assert found.label(Variant("fastlloyd", (), 1)) == "FastLloyd (1 client)"


def test_a_method_that_runs_centrally_is_one_line_for_every_number_of_clients() -> None:
    made = [
        _row(method, math.inf if method == "lloyd" else 1.0, 0, 1.0 + clients, clients=clients)
        for method in ("lloyd", "pe-means", "mine", "fastlloyd")
        for clients in (1, 2)
    ]
    results = Results(title="", rows=tuple(made), central=frozenset({"lloyd", "pe-means", "mine"}))
    found = Summaries.of(results)
    assert [found.label(each) for each in found.variants] == [
        "Lloyd", "FastLloyd (1 client)", "FastLloyd (2 clients)", "mine", "pe-means",
    ]  # fmt: skip
    lloyd = Variant("lloyd", (), 1)
    assert found.sample("iris", lloyd, 1.0, "nicv").by_run == {0: 2.0}


def test_labels_name_the_options_that_differ_and_no_others() -> None:
    options = [(("alpha", alpha), ("radius", "step")) for alpha in ("0.4", "0.8")]
    found = _summaries(*(_row("fastlloyd", 1.0, 0, 1.0, options=each) for each in options))
    assert [found.label(each) for each in found.variants] == [
        "FastLloyd (alpha 0.4)",
        "FastLloyd (alpha 0.8)",
    ]


def test_measures_of_the_paper_come_first() -> None:
    assert in_order({"zeta", "davies_bouldin", "alpha", "nicv"}) == [
        "nicv",
        "davies_bouldin",
        "alpha",
        "zeta",
    ]


def test_a_folder_whose_runner_still_runs_gives_the_same_summaries(tmp_path: Path) -> None:
    made = rows({"iris": REAL["iris"], "wine": REAL["wine"]})
    made[3] = fail(made[3], "it broke")
    done, going = (read(write(tmp_path / "done", made)), read(write(tmp_path / "going", made)))
    # a trial that failed took NaN seconds, which equals nothing
    assert list(map(repr, done.rows)) == list(map(repr, going.rows))
    assert len(done.failures) == 1
    found = Summaries.of(going)
    assert found.epsilons("iris") == list(EPSILONS)
    assert found.datasets["wine"].n_features == 13


def test_families_are_named_by_what_stands_before_the_numbers() -> None:
    found = _summaries(
        *(
            _row("glloyd", 1.0, 0, 1.0, dataset=name)
            for name in ("g2-16-30", "synth-2-4-1", "iris", "my-set")
        )
    )
    assert [each.family for each in found.datasets.values()] == ["g2", "synth", "", ""]
