"""Bounds of the features, found from noisy histograms if their ranges are not well known."""
