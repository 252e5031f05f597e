"""Recorded /metrics pages to intervals, windows and the curve."""
