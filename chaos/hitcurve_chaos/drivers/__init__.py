"""Drivers: how an engine is paused, ended, started, starved or cut off; by processes, by Docker, or not at all."""
