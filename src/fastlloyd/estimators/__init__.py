"""Estimators of private k-means in the style of scikit-learn, for one organisation that has all
records.
"""

from fastlloyd.estimators.estimators import FastLloyd, GLloyd, Lloyd, MomentLloyd, SuLloyd

__all__ = ["FastLloyd", "GLloyd", "Lloyd", "MomentLloyd", "SuLloyd"]
