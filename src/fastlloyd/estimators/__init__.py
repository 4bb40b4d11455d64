"""Private k-means as scikit-learn estimators: the central model, for one holder of all records."""

from fastlloyd.estimators.estimators import FastLloyd, GLloyd, Lloyd, MomentLloyd, SuLloyd

__all__ = ["FastLloyd", "GLloyd", "Lloyd", "MomentLloyd", "SuLloyd"]
