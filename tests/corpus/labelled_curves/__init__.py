"""Labelled hit-rate curves, and what a classifier makes of them."""
