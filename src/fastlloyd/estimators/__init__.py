"""Private k-means as scikit-learn estimators: the central model, for one holder of all records."""

from fastlloyd.estimators.base import let_old_pickles_be_read
from fastlloyd.estimators.estimators import FastLloyd, GLloyd, Lloyd, MomentLloyd, SuLloyd

__all__ = ["FastLloyd", "GLloyd", "Lloyd", "MomentLloyd", "SuLloyd"]

let_old_pickles_be_read()
