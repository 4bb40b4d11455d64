"""Private k-means as scikit-learn estimators: the central model, in which one organisation has all
records.
"""

from fastlloyd.estimators.estimators import FastLloyd, GLloyd, Lloyd, MomentLloyd, SuLloyd

__all__ = ["FastLloyd", "GLloyd", "Lloyd", "MomentLloyd", "SuLloyd"]
