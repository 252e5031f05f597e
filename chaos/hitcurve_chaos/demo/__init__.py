"""``hitcurve demo``: engine, exporter, load and chaos on this machine, ending in one report."""
