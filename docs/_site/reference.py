"""Reference pages about words that the code defines."""

from hitcurve.catalogue import CATALOGUE
from hitcurve.flags import ALL_FLAGS
from hitcurve.reading import CAUSES, STATES, UNHEALTHY_STATES

__all__ = ["states_page"]


def states_page() -> str:
    """States, causes and flags, and the metrics that carry them."""
    lines = ["# States, causes, flags", "", "## States of the curve", ""]
    lines += [f"- `{state}`{' (unhealthy)' if state in UNHEALTHY_STATES else ''}" for state in STATES]
    lines += ["", "What each means and when it is left: [the curve](../curve.md). ", "", "## Causes", ""]
    lines += [f"- `{cause}`" for cause in CAUSES]
    lines += ["", "## Flags: what was odd about a page or an interval", "", "| flag | meaning |", "|---|---|"]
    lines += [f"| `{flag}` | {meaning} |" for flag, meaning in ALL_FLAGS.items()]
    lines += ["", "## Metrics that carry them", ""]
    lines += [
        f"- `{metric.name}`: {metric.help}"
        for metric in CATALOGUE
        if "state" in metric.name or "cause" in metric.name
    ]
    return "\n".join([*lines, ""])
