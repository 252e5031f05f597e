"""``hitcurve_engine_*`` metrics: counted in the engine's process, shown where the API server's own are."""
