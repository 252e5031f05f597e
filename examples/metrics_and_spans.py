"""Why did the rate fall in that minute? The curve's intervals, joined with the requests that fall into each.

curl -s 'http://127.0.0.1:9477/api/v1/engines/ENGINE/curve?window=10m' > curve.json      # from the exporter
HITCURVE_OUTCOME_FILE=outcomes.jsonl vllm serve MODEL                                    # from the engine patch
python examples/metrics_and_spans.py curve.json outcomes.jsonl

The file holds what the spans hold (hitcurve.query_tokens, hitcurve.miss_tokens.REASON); where spans go to a
collector, read those attributes instead. Counters and outcomes count a request when it is scheduled.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def scheduled_requests(outcomes: Path) -> list[tuple[float, dict[str, Any]]]:
    """Requests that looked the cache up, with their time in Unix seconds."""
    offset_s, found = 0.0, []
    for line in outcomes.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["kind"] == "engine":
            # Outcomes have times of the monotonic clock; the engine's record leads to those of the wall.
            offset_s = record["wall_offset_s"]
        elif record["kind"] == "request" and record["status"] == "looked_up":
            found.append((record["scheduled_at_s"] + offset_s, record))
    return found


def explain(point: dict[str, Any], requests: list[tuple[float, dict[str, Any]]]) -> str:
    """One interval: the rate by the counters, and the miss reasons of the requests scheduled in it."""
    inside = [one for at_s, one in requests if point["from_s"] < at_s <= point["to_s"]]
    reasons: Counter[str] = Counter()
    for one in inside:
        reasons.update(one["miss_tokens"] or {"unexplained": one["query_tokens"] - one["hit_tokens"]})
    queries = sum(one["query_tokens"] for one in inside)
    rate = "     –" if point["hit_rate"] is None else f"{point['hit_rate']:6.1%}"
    missed = ", ".join(f"{reason} {tokens / queries:.1%}" for reason, tokens in reasons.most_common() if tokens)
    # Scrapes and schedulings race, so the two may differ by the requests of one moment, never for long.
    off = "" if queries == (point["queries"] or 0) else f" (counters: {point['queries']:.0f} tokens)"
    return f"{point['from_s']:.0f} {rate}  {queries:>6} tokens{off}  {missed}".rstrip()


def main(arguments: list[str]) -> None:
    """A line for each interval with traffic."""
    curve = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    requests = scheduled_requests(Path(arguments[1]))
    for point in curve["points"]:
        if point["queries"]:
            print(explain(point, requests))


if __name__ == "__main__":
    main(sys.argv[1:])
