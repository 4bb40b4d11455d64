"""Private k-means as scikit-learn estimators: the central model, for one holder of all records."""

from fastlloyd.estimators.estimators import FastLloyd, GLloyd, Lloyd, MomentLloyd, SuLloyd
from fastlloyd.estimators.old_pickles import let_old_pickles_be_read

__all__ = ["FastLloyd", "GLloyd", "Lloyd", "MomentLloyd", "SuLloyd"]

let_old_pickles_be_read()
