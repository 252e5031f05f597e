"""Whether Grafana's own schema understands a dashboard: decoded and encoded again, nothing may be lost."""

import json
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["schema_problems"]


def schema_problems(document: Mapping[str, Any]) -> list[str]:
    """The fields that do not come back from grafana-foundation-sdk: misspelt, misplaced or of the wrong type."""
    given = json.loads(json.dumps(document))
    try:
        returned = _through_the_schema(given)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return [f"Grafana's schema cannot read it: {error!r}"]
    return [f"{place} is not in Grafana's schema, or of another type" for place in _lost(given, returned)]


def _through_the_schema(document: Any) -> Any:
    with warnings.catch_warnings():
        # The classic schema is what Grafana 11 reads; the library would rather have the next one.
        warnings.simplefilter("ignore", DeprecationWarning)
        from grafana_foundation_sdk.cog.encoder import JSONEncoder
        from grafana_foundation_sdk.cog.plugins import register_default_plugins
        from grafana_foundation_sdk.models.dashboard import Dashboard

        register_default_plugins()
        return json.loads(json.dumps(Dashboard.from_json(document), cls=JSONEncoder))


def _lost(given: Any, returned: Any, place: str = "") -> Iterator[str]:
    if isinstance(given, dict) and isinstance(returned, dict):
        for key, value in given.items():
            if key in returned:
                yield from _lost(value, returned[key], f"{place}.{key}")
            elif value is not None:
                yield f"{place}.{key}"
    elif isinstance(given, list) and isinstance(returned, list) and len(given) == len(returned):
        for position, (one, other) in enumerate(zip(given, returned, strict=True)):
            yield from _lost(one, other, f"{place}[{position}]")
    elif given != returned:
        yield place
