"""The time to the first token apart for hits and misses, where an engine with the patch is read directly."""

from collections.abc import Mapping
from typing import Final

from hitcurve.engine_patch_catalogue import FIRST_TOKEN
from hitcurve.readers.exposition import MalformedLine, parse_page

__all__ = ["FirstTokens"]

_COUNT: Final = f"{FIRST_TOKEN.name}_count"
_SUM: Final = f"{FIRST_TOKEN.name}_sum"
_LABEL: Final = FIRST_TOKEN.labels[0]


class FirstTokens:
    """Follows the pages of one target; ``mean_s`` is that of the newest interval, in seconds by what was found.

    The engines of a target are taken together. Groups without a request in the interval are left out.
    """

    def __init__(self) -> None:
        self.mean_s: Mapping[str, float] = {}
        self._last: Mapping[str, tuple[float, float]] | None = None

    def observe(self, body: bytes | str | None) -> None:
        """Take a page; one that cannot be read, or on which a counter fell, begins anew."""
        now = _counted(body)
        last, self._last, self.mean_s = self._last, now, {}
        if now is None or last is None:
            return
        steps = {
            found: (count - last.get(found, (0.0, 0.0))[0], seconds - last.get(found, (0.0, 0.0))[1])
            for found, (count, seconds) in now.items()
        }
        if all(count >= 0 and seconds >= 0 for count, seconds in steps.values()):
            self.mean_s = {found: seconds / count for found, (count, seconds) in steps.items() if count > 0}


def _counted(body: bytes | str | None) -> Mapping[str, tuple[float, float]] | None:
    """Requests and seconds since the engine's start, by what was found; ``None`` where no page was read."""
    if body is None:
        return None
    try:
        series = parse_page(body.decode() if isinstance(body, bytes) else body, {_COUNT, _SUM}).series
    except (MalformedLine, UnicodeDecodeError):
        return None
    sums: dict[str, list[float]] = {}
    for at, name in enumerate((_COUNT, _SUM)):
        for one in series.get(name, ()):
            sums.setdefault(one.labels.get(_LABEL, ""), [0.0, 0.0])[at] += one.value
    return {found: (count, seconds) for found, (count, seconds) in sums.items()}
