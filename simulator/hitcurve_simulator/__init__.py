"""Cache rules, the simulated engine and its server."""
