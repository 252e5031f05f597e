"""Ceiling, prediction and measurement of the same traffic beside each other, and what lies between them."""
