"""Polling engines: one page at a time per target, all targets at once, nothing unbounded."""
