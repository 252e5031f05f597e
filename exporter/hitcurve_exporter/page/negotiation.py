"""Which of the two formats a reader wants, from its Accept header."""

from collections.abc import Iterator

from hitcurve_exporter.page.document import OPENMETRICS, TEXT, PageFormat

__all__ = ["format_for"]

_OPENMETRICS_TYPE = "application/openmetrics-text"
_OPENMETRICS_VERSIONS = ("1.0.0", "0.0.1", "")


def format_for(accept: str) -> PageFormat:
    """OpenMetrics where the reader prefers it to plain text in so many words, text else."""
    openmetrics, text = 0.0, 0.0
    for media_type, parameters in _ranges(accept):
        quality = _quality(parameters.get("q", "1"))
        if media_type == _OPENMETRICS_TYPE and parameters.get("version", "") in _OPENMETRICS_VERSIONS:
            openmetrics = max(openmetrics, quality)
        elif media_type in ("text/plain", "text/*"):
            text = max(text, quality)
    return OPENMETRICS if openmetrics > 0 and openmetrics >= text else TEXT


def _ranges(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    for entry in accept.split(","):
        media_type, *parameters = entry.split(";")
        pairs = (parameter.partition("=") for parameter in parameters)
        yield media_type.strip().lower(), {name.strip().lower(): value.strip(' "') for name, _, value in pairs}


def _quality(text: str) -> float:
    try:
        return min(1.0, max(0.0, float(text)))
    except ValueError:
        return 0.0
