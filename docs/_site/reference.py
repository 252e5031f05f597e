"""Reference pages about words that the code defines."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from hitcurve.catalogue import CATALOGUE
from hitcurve.curve import CurveConfig
from hitcurve.flags import ALL_FLAGS
from hitcurve.reading import CAUSES, STATES, UNHEALTHY_STATES
from hitcurve_engine import settings

__all__ = ["configuration_page", "states_page"]


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


def configuration_page(root: Path) -> str:
    """Files and variables that are read: the examples, which show every key, and the constants of the curve."""
    examples = {
        "The exporter": ("exporter/hitcurve.example.yaml", "[What each key means](../exporter.md#configuration)."),
        "Targets of chaos": ("chaos/targets.example.yaml", "[What each key means](../chaos.md)."),
        "A load profile": ("examples/load_profile.yaml", "[What each key means](../loadtests.md)."),
    }
    lines = ["# Configuration", ""]
    for title, (file, more) in examples.items():
        text = (root / file).read_text(encoding="utf-8").rstrip()
        lines += [f"## {title}", "", f"`{file}`. {more}", "", "```yaml", text, "```", ""]
    lines += ["## The curve", "", "Below `curve:` in the exporter's file. [The classifier](../curve.md).", ""]
    lines += ["| constant | default | meaning |", "|---|---|---|"]
    lines += [f"| `{name}` | {default} | {meaning} |" for name, default, meaning in _fields(CurveConfig)]
    lines += ["", "## The engine patch", "", "Variables of the engine's environment.", ""]
    lines += ["```", inspect.cleandoc(settings.__doc__ or ""), "```", ""]
    return "\n".join(lines)


def _fields(record: type) -> Iterator[tuple[str, str, str]]:
    """Name, default and docstring of each field of a dataclass."""
    (body,) = [node for node in ast.parse(inspect.getsource(record)).body if isinstance(node, ast.ClassDef)]
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            default = "" if field.value is None else ast.unparse(field.value)
            yield field.target.id, default, " ".join(str(ast.literal_eval(text.value)).split())
