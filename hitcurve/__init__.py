"""The shared language of hitcurve: block hashes, counters, windows, the curve, reading an engine's page.

Everything importable from here is free of third-party dependencies.
"""

__version__ = "0.1.0"
