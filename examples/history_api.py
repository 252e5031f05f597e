"""What happened in the last hour, from an exporter's history API: incidents, restarts, state changes.

python examples/history_api.py http://127.0.0.1:9477 [window, such as 10m]
"""

import json
import sys
import time
import urllib.parse
import urllib.request
from typing import Any


def get(address: str) -> Any:
    """The JSON behind an address."""
    with urllib.request.urlopen(address, timeout=10) as answer:
        return json.load(answer)


def clock(at_s: float | None) -> str:
    """Unix seconds as a time of the day; an incident without an end still lasts."""
    return "now" if at_s is None else time.strftime("%H:%M:%S", time.localtime(at_s))


def rate(points: list[dict[str, Any]]) -> str:
    """Hits / queries over all points: a ratio of sums. Without traffic there is no rate."""
    queries, hits = (sum(point[name] or 0 for point in points) for name in ("queries", "hits"))
    return f"{hits / queries:.1%} of {queries:,.0f} tokens" if queries else "no traffic"


def tell(exporter: str, engine: str, window: str) -> None:
    """Print one engine's history."""
    quoted = urllib.parse.quote(engine, safe="")
    curve = get(f"{exporter}/api/v1/engines/{quoted}/curve?window={window}")
    print(f"{engine}: {rate(curve['points'])}")
    for change in curve["states"]:
        cause = f" ({change['cause']})" if change["cause"] else ""
        print(f"  {clock(change['at_s'])} {change['state']}{cause}")
    for cut in curve["cuts"]:
        print(f"  {clock(cut['at_s'])} cut: {cut['kind']}")
    for episode in curve["episodes"]:
        depth, lost = episode["depth"], episode["lost_tokens"]
        known = [episode["cause"] or "cause unknown"]
        known += [] if depth is None else [f"{depth * 100:.0f} points deep"]
        known += [] if lost is None else [f"{lost:,.0f} tokens computed again"]
        print(f"  {clock(episode['from_s'])} to {clock(episode['to_s'])}: an incident, {', '.join(known)}")


def main(arguments: list[str]) -> None:
    """All engines of the exporter."""
    exporter = arguments[0].rstrip("/") if arguments else "http://127.0.0.1:9477"
    for engine in get(f"{exporter}/api/v1/engines")["engines"]:
        tell(exporter, f"{engine['target']}/{engine['engine']}", arguments[1] if arguments[1:] else "1h")


if __name__ == "__main__":
    main(sys.argv[1:])
