"""The curve classifier: from hit rates to a state, a cause and the numbers that prove it."""

from hitcurve.curve.classifier import CurveClassifier
from hitcurve.curve.config import CurveConfig
from hitcurve.curve.episodes import Episode

__all__ = ["CurveClassifier", "CurveConfig", "Episode"]
