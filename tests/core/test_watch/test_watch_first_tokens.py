"""The time to the first token by what was found, from the pages of an engine with the patch."""

import pytest

from hitcurve.engine_patch_catalogue import FIRST_TOKEN
from hitcurve.reading import Reading
from hitcurve.scrape import Scrape
from hitcurve.watch.detail import detail
from hitcurve.watch.first_tokens import FirstTokens
from hitcurve.watch.replica import Replica
from hitcurve.watch.sources import Watched

COUNTERS = """# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1000
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 250
"""


def page(**found: tuple[float, float]) -> str:
    """Requests and seconds by what was found, on an engine's page."""
    lines = [COUNTERS.rstrip(), f"# TYPE {FIRST_TOKEN.name} histogram"]
    for name, (count, seconds) in found.items():
        labels = f'engine="0",model_name="m",found="{name}"'
        lines += [f"{FIRST_TOKEN.name}_count{{{labels}}} {count}", f"{FIRST_TOKEN.name}_sum{{{labels}}} {seconds}"]
    return "\n".join([*lines, ""])


def test_means_are_of_the_newest_interval() -> None:
    followed = FirstTokens()
    followed.observe(page(none=(10, 20.0), most=(10, 1.0)))
    assert followed.mean_s == {}
    followed.observe(page(none=(12, 26.0), most=(10, 1.0), some=(1, 0.5)).encode())
    assert followed.mean_s == {"none": 3.0, "some": 0.5}


@pytest.mark.parametrize(
    "between",
    [None, b"\xff\xfe", f"{FIRST_TOKEN.name}_count{{ nonsense", page(none=(1, 1.0)), COUNTERS],
    ids=["no answer", "no text", "malformed", "restarted", "without the patch"],
)
def test_a_gap_or_a_restart_has_no_mean_and_begins_anew(between: bytes | str | None) -> None:
    followed = FirstTokens()
    followed.observe(page(none=(10, 20.0)))
    followed.observe(between)
    assert followed.mean_s == {}
    followed.observe(page(none=(14, 28.0)))
    followed.observe(page(none=(15, 28.5)))
    assert followed.mean_s == {"none": 0.5}


def test_the_view_of_a_replica_shows_them_under_the_mean_of_all() -> None:
    pages = [page(none=(1, 1.0), most=(1, 1.0)), page(none=(2, 3.0), most=(5, 1.2))]

    def fetch(url: str, timeout_s: float, max_bytes: int) -> Scrape:
        at_s = 1000.0 - 5 * len(pages)
        return Scrape(at_s, at_s, url, 200, pages.pop(0).encode(), "text/plain; version=0.0.4")

    watched = Watched(["a:8000"], windows_s=(60.0,), timeout_s=1.0, fetch=fetch)
    (first,) = watched.next().replicas
    assert first.first_token_s == {}
    (second,) = watched.next().replicas
    lines = detail(second, 80).plain.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("mean time to first token"))
    assert lines[at + 1 : at + 3] == ["  half or more found      50ms", "  nothing found           2.0s"]


def test_without_the_patch_there_is_one_line() -> None:
    text = detail(Replica("a", Reading("a", "0", 0.0, up=True, mean_ttft_s=0.5)), 80).plain
    assert "mean time to first token  500ms\nrunning / waiting" in text
