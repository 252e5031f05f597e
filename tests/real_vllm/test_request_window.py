"""The request window equals the one behind vLLM's log line "Prefix cache hit rate"."""

import json
import random
import subprocess
from pathlib import Path

import pytest

from hitcurve.windows import RequestWindow

pytestmark = pytest.mark.real_vllm

SEED = 20250401
SEQUENCES = 60
UPDATES = 80


def random_updates(dice: random.Random) -> list[tuple[int, int, int, bool]]:
    updates = []
    for _ in range(UPDATES):
        requests = dice.choice([0, 1, 1, 2, dice.randrange(60)])
        queries = dice.randrange(1, 2000) * requests
        updates.append((requests, queries, dice.randint(0, queries), dice.random() < 0.03))
    return updates


def test_window_equals_that_of_vllm(vllm_python: Path) -> None:
    dice = random.Random(SEED)
    cases = [
        {"max_requests": dice.choice([1, 10, 100, 1000]), "updates": random_updates(dice)}
        for _ in range(SEQUENCES)
    ]
    program = Path(__file__).with_name("vllm_request_window.py")
    answer = subprocess.run(
        [vllm_python, program], input=json.dumps(cases), capture_output=True, text=True, timeout=300
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    answers = json.loads(answer.stdout.splitlines()[-1])
    assert len(answers) == SEQUENCES
    for case, states in zip(cases, answers, strict=True):
        window = RequestWindow(case["max_requests"])
        for (requests, queries, hits, reset), (their_requests, total, hit, rate) in zip(
            case["updates"], states, strict=True
        ):
            window.add(requests, queries, hits, reset=reset)
            assert (window.requests, window.queries, window.hits) == (their_requests, total, hit), case
            assert window.hit_rate == (rate if total else None)
