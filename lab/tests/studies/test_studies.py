"""What the studies share with the product and its pages."""

import numpy as np

from clone import ROOT
from fastlloyd.mechanisms.facts import FarRecords
from studies import coverage, forecast

PAGE = ROOT / "docs/results/forecast.md"


def test_the_table_of_the_forecast_is_that_of_the_code() -> None:
    assert forecast.section() in PAGE.read_text()


def test_the_study_takes_centres_and_means_of_the_records_that_are_nearest() -> None:
    """Records at 1, 3 and 20 from a centroid with R 4, and one at another: 20 counts as 4, or is
    left out.
    """
    grid, centroids = np.array([[1], [3], [20], [1000]]), np.array([[0], [1000], [-1000]])
    radius, units = np.array([8.0]), np.array([2.0])
    for far, expected in ((FarRecords.PULLED_IN, 8 / 3), (FarRecords.LEFT_OUT, 2.0)):
        centres, means = coverage._exact(grid, centroids, far, radius, units)
        assert np.allclose(centres.ravel(), np.array([expected, 0, np.nan]), equal_nan=True)
        assert np.allclose(means.ravel(), np.array([8, 0, np.nan]), equal_nan=True)
    centres, means = coverage._exact(grid, centroids, FarRecords.COUNTED, None, units)
    assert np.array_equal(centres, means, equal_nan=True)
