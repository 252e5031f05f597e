"""``hitcurve watch``: the hit-rate curves of replicas in a terminal."""
