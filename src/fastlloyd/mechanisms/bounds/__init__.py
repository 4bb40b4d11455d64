"""Bounds of the features from noisy histograms, for records whose ranges are not well known."""
