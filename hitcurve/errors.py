"""What can go wrong, as a tree, each with the exit code the command line ends with.

::

    HitcurveError
    ├── UsageError          exit 2: wrong usage or unreadable input
    ├── EnvironmentFailed   exit 3: engine not reachable, port in use, program missing
    └── BadFinding          exit 1: the tool worked and what it found is bad

A message says what is wrong, where, and what to do about it, in one sentence.
"""

__all__ = ["BadFinding", "EnvironmentFailed", "HitcurveError", "UsageError"]


class HitcurveError(Exception):
    """Base of every error a user may see; printed on stderr without a traceback."""

    exit_code = 2


class UsageError(HitcurveError):
    """Wrong usage or unreadable input."""

    exit_code = 2


class EnvironmentFailed(HitcurveError):
    """Something outside the program failed: an unreachable engine, a port in use, a missing program."""

    exit_code = 3


class BadFinding(HitcurveError):
    """The finding itself is bad: unhealthy engine, failed scenario."""

    exit_code = 1
