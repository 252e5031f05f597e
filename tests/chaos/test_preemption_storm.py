"""A storm that preempts nobody is sent again, of more requests; what one attempt showed stays shown."""

import json
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hitcurve_chaos.runner import run_scenarios
from hitcurve_chaos.targets import Target

SETTINGS = {"requests": 4, "correctness": "false", "recover_within": 10}


class Server:
    """Preempts for each request beyond the first ``bears``; of an attempt two are asked again afterwards."""

    def __init__(self, bears: int) -> None:
        self._bears = bears
        self._lock = threading.Lock()
        self._storm = self._queries = 0

    def answer(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, str]:
        if path == "/metrics":
            return 200, self._page()
        assert body is not None
        with self._lock:
            self._storm += body["max_tokens"] > 1
            self._queries += len(body["prompt"])
        usage = {"prompt_tokens": len(body["prompt"]), "prompt_tokens_details": {"cached_tokens": 0}}
        return 200, json.dumps({"choices": [{"text": "x", "token_ids": [1]}], "usage": usage})

    def _page(self) -> str:
        labels = '{engine="0",model_name="m"}'
        config = '{engine="0",block_size="16",num_gpu_blocks="11",kv_cache_size_tokens="160"}'
        return f"# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{config} 1\n" + "".join(
            f"# TYPE {name} {kind}\n{name}{suffix}{labels} {value}\n"
            for name, kind, suffix, value in (
                ("vllm:prefix_cache_queries", "counter", "_total", self._queries),
                ("vllm:prefix_cache_hits", "counter", "_total", 0),
                ("vllm:num_preemptions", "counter", "_total", max(0, self._storm - self._bears)),
                ("vllm:kv_cache_usage_perc", "gauge", "", 0),
                ("vllm:num_requests_running", "gauge", "", 0),
                ("vllm:num_requests_waiting", "gauge", "", 0),
            )
        )


@pytest.mark.parametrize(
    ("bears", "verdict", "attempts", "requests", "preemptions"),
    [(3, "ok", 1, 4, 1), (6, "ok", 2, 8, 8), (10_000, "invalid", 3, 16, 0)],
)
def test_a_storm_grows_until_it_preempts(
    scripted: ModuleType,
    tmp_path: Path,
    bears: int,
    verdict: str,
    attempts: int,
    requests: int,
    preemptions: int,
) -> None:
    with scripted.serve(Server(bears)) as url:
        (found,) = run_scenarios(Target("t", url, "m"), ["preemption-storm"], tmp_path / "run", 7, SETTINGS)
    expected = {"attempts": attempts, "requests": requests, "preemptions": preemptions, "failed": 0}
    assert {name: found.numbers.get(name) for name in expected} == expected, found.problems
    assert found.verdict == verdict
