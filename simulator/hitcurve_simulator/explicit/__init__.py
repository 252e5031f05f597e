"""Explicit breakpoints: a client says where its prompt may be cached (Anthropic's ``cache_control``).

Followed from the public description of the API; nothing here was compared with the service itself.
"""

from hitcurve_simulator.explicit.cache import ExplicitCache
from hitcurve_simulator.explicit.usage import Multipliers, Usage
from hitcurve_simulator.explicit.wish import LIFETIMES_S, MOST_BREAKPOINTS, Breakpoint, Lifetime, Prompt

__all__ = [
    "LIFETIMES_S",
    "MOST_BREAKPOINTS",
    "Breakpoint",
    "ExplicitCache",
    "Lifetime",
    "Multipliers",
    "Prompt",
    "Usage",
]
