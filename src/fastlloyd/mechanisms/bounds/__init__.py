"""Search for the bounds of features whose ranges are not well known, by noisy histograms."""
