"""Scenarios: a fault, what is expected of the curve, and the settings of both."""
