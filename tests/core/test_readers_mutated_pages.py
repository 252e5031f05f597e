"""A short run of the fuzzer; the long one is ``make bench``."""

import json
import subprocess
import sys
from pathlib import Path


def test_damaged_pages_are_read_or_refused_and_nothing_else(repository: Path) -> None:
    script = repository / "tests" / "benchmarks" / "fuzz_pages.py"
    done = subprocess.run(
        [sys.executable, str(script), "--pages", "12000", "--seed", "20261130"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["outcomes"]["read"] + result["outcomes"]["refused"] == result["pages"] == 12000
    assert result["outcomes"]["read"] > 2000
    assert result["outcomes"]["refused"] > 2000
    assert result["against_prometheus_client"]["same"] > 50
