"""Scenarios, faults, hypotheses, journal, verdict, report."""
