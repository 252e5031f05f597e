"""Faults: what is done to an engine, and how it is undone."""
