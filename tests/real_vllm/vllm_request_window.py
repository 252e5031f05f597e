"""Run by the Python of a real vLLM: replay update sequences through vLLM's own request window.

Reads from stdin a list of sequences of [requests, queries, hits, reset]; prints, for each, the window's
[requests, queries, hits, hit rate] after every update.
"""

import json
import sys

from vllm.v1.metrics.stats import CachingMetrics, PrefixCacheStats


def main() -> None:
    """Answer one list of cases."""
    answers = []
    for case in json.load(sys.stdin):
        metrics = CachingMetrics(max_recent_requests=case["max_requests"])
        states = []
        for requests, queries, hits, reset in case["updates"]:
            metrics.observe(PrefixCacheStats(reset=reset, requests=requests, queries=queries, hits=hits))
            states.append(
                [
                    metrics.aggregated_requests,
                    metrics.aggregated_query_total,
                    metrics.aggregated_query_hit,
                    metrics.hit_rate,
                ]
            )
        answers.append(states)
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
