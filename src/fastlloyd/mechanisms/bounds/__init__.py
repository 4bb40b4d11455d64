"""Bounds of the features from noisy histograms: for records whose ranges nobody knows well."""
