"""From scrapes of a target to readings of its engines."""

from hitcurve.monitor.classifier import Classifier
from hitcurve.monitor.target import TargetMonitor
from hitcurve.monitor.totals import total_interval, total_windows

__all__ = ["Classifier", "TargetMonitor", "total_interval", "total_windows"]
