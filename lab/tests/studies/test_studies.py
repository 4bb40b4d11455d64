"""Tests that studies agree with the product and with its pages."""

import numpy as np

from clone import ROOT
from fastlloyd.mechanisms.facts import FarRecords
from studies import coverage, forecast, sentences
from studies.coverage_groups import CASES

PAGE = ROOT / "docs/results/forecast.md"


def test_the_table_of_the_forecast_is_that_of_the_code() -> None:
    assert forecast.section() in PAGE.read_text()


def test_the_study_takes_centres_and_means_of_the_records_that_are_nearest() -> None:
    """Records are at 1, 3 and 20 from a centroid with R = 4, and one is at another centroid. The
    distance 20 counts as 4, or the record is left out.
    """
    grid, centroids = np.array([[1], [3], [20], [1000]]), np.array([[0], [1000], [-1000]])
    radius, units, labels = np.array([8.0]), np.array([2.0]), np.array([0, 0, 0, 1])
    for far, expected in ((FarRecords.PULLED_IN, 8 / 3), (FarRecords.LEFT_OUT, 2.0)):
        centres, means = coverage._exact(grid, centroids, labels, far, radius, units)
        assert np.allclose(centres.ravel(), np.array([expected, 0, np.nan]), equal_nan=True)
        assert np.allclose(means.ravel(), np.array([8, 0, np.nan]), equal_nan=True)
    centres, means = coverage._exact(grid, centroids, labels, FarRecords.COUNTED, None, units)
    assert np.array_equal(centres, means, equal_nan=True)


def test_the_study_of_sentences_counts_what_is_false_of_exact_centres() -> None:
    """The claims of a run are true for its own centres. They become false if the centres are
    swapped.
    """
    run = coverage.run_of(CASES[8], 0, "test")
    page = sentences.page_of(run)
    assert (page.claims > 0, page.false, page.false_superlatives) == (True, 0, 0)
    values = run.domain.from_grid(run.clustering.centroids)
    turned = run._replace(centres=(values[::-1] - values) / run.domain.units + run.centres[::-1])
    wrong = sentences.page_of(turned)
    assert wrong.claims == page.claims
    assert wrong.false > 0
