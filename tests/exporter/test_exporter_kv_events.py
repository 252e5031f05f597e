"""KV events over ZeroMQ, from a publisher on the loopback interface to the page."""

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from hitcurve.catalogue import CATALOGUE
from hitcurve_exporter.configuration.discovery_records import FileDiscovery
from hitcurve_exporter.configuration.kv_events_records import KvEventsConfig
from hitcurve_exporter.configuration.records import TargetConfig

Start = Callable[..., Any]
STORED_TWO = {"type": "BlockStored", "block_hashes": [b"a", b"b"], "medium": "GPU"}
STORED_ONE_AGAIN = ["BlockStored", [b"a"], None, [1, 2], 2, None, "GPU"]
REMOVED_ONE = {"type": "BlockRemoved", "block_hashes": [b"b"], "medium": "GPU"}
CLEARED = {"type": "AllBlocksCleared"}


class Publisher:
    """Numbers batches as vLLM does; ``replay`` answers one question with what it was told to keep."""

    def __init__(
        self,
        context: zmq.Context[Any],
        topic: bytes = b"",
        frames_of_old: bool = False,
        host: str = "127.0.0.1",
    ) -> None:
        self._topic, self._frames_of_old = topic, frames_of_old
        self._pub = context.socket(zmq.XPUB)
        self._router = context.socket(zmq.ROUTER)
        for socket in (self._pub, self._router):
            socket.setsockopt(zmq.IPV6, host.startswith("["))
        self.endpoint = f"tcp://{host}:{self._pub.bind_to_random_port(f'tcp://{host}')}"
        self.replay_endpoint = f"tcp://{host}:{self._router.bind_to_random_port(f'tcp://{host}')}"
        self.number = 0
        self.kept: list[tuple[int, bytes]] = []
        self._read = False

    def publish(self, *events: object, lost: bool = False) -> None:
        payload = msgspec.msgpack.encode([float(self.number), list(events)])
        self.kept.append((self.number, payload))
        if not lost:
            self.send(self._topic, self.number.to_bytes(8, "big"), payload)
        self.number += 1

    def send(self, *frames: bytes) -> None:
        """One message, to a reader who has subscribed."""
        if not self._read:
            assert self._pub.poll(10_000), "nobody subscribed"
            assert self._pub.recv() == b"\x01" + self._topic
            self._read = True
        self._pub.send_multipart(frames)

    def answer(self, without: frozenset[int] = frozenset(), end: bool = True) -> int:
        """Answer the next question; the number it begins with."""
        assert self._router.poll(10_000), "nobody asked for a replay"
        asker, empty, since = self._router.recv_multipart()
        topic = [] if self._frames_of_old else [self._topic]
        for number, payload in self.kept:
            if number >= int.from_bytes(since, "big") and number not in without:
                self._router.send_multipart([asker, empty, *topic, number.to_bytes(8, "big"), payload])
        if end:
            self._router.send_multipart([asker, empty, *(topic and [b""]), b"\xff" * 8, b""])
        return int.from_bytes(since, "big")

    def close(self) -> None:
        self._pub.close(linger=0)
        self._router.close(linger=0)


@pytest.fixture
def publisher() -> Iterator[Callable[..., Publisher]]:
    """Starts publishers."""
    context: zmq.Context[Any] = zmq.Context()
    running: list[Publisher] = []

    def start(**settings: Any) -> Publisher:
        running.append(Publisher(context, **settings))
        return running[-1]

    yield start
    for one in running:
        one.close()
    context.destroy(linger=0)


@pytest.fixture
def follow(
    scripted_engine: Start, start_exporter: Start, watching: Start, page_of: Start
) -> Callable[..., tuple[Any, Any]]:
    """An engine and an exporter that follows a publisher of it."""

    def begin(config: KvEventsConfig) -> tuple[Any, Any]:
        engine = scripted_engine(page_of(1000, 900, 10))
        target = TargetConfig(engine.url, f"{engine.url}/metrics", "a", (("zone", "x"),), config)
        return engine, start_exporter(replace(watching(engine.url), targets=(target,)))

    return begin


def seen(exporter: Any, metric: str, tier: str = "", engine: str = "0") -> float | None:
    own = f',tier="{tier}"' if tier else ""
    found = exporter.samples().get(f'hitcurve_kv_events_{metric}{{target="a",engine="{engine}",zone="x"{own}}}')
    return None if found is None else float(found)


def live(exporter: Any) -> tuple[float | None, ...]:
    return tuple(
        seen(exporter, f"{name}", "device") for name in ("live_blocks", "duplicate_blocks", "duplicate_hashes")
    )


def test_blocks_are_counted_from_the_first_batch_on(
    publisher: Start, follow: Start, eventually: Callable[..., Any]
) -> None:
    source = publisher()
    _, exporter = follow(KvEventsConfig(source.endpoint))
    eventually(lambda: seen(exporter, "connected") == 1)
    assert live(exporter) == (None, None, None)
    assert seen(exporter, "complete") == 0
    source.publish(STORED_TWO, STORED_ONE_AGAIN)
    eventually(lambda: seen(exporter, "batches_total") == 1)
    assert live(exporter) == (2, 1, 1)
    source.publish(REMOVED_ONE)
    eventually(lambda: seen(exporter, "batches_total") == 2)
    assert live(exporter) == (1, 1, 1)
    assert (seen(exporter, "stored_blocks_total", "device"), seen(exporter, "removed_blocks_total", "device")) == (
        3,
        1,
    )
    assert (seen(exporter, "complete"), seen(exporter, "gaps_total")) == (1, 0)
    (target,) = exporter.engines()["targets"]
    (told,) = target["kv_events"]
    assert told.pop("last_batch_at_s") == seen(exporter, "last_batch_timestamp_seconds")
    assert told == {
        "engine": "0",
        "connected": True,
        "complete": True,
        "stored_blocks": {"device": 3},
        "removed_blocks": {"device": 1},
        "clears": 0,
        "live": {"device": {"blocks": 1, "duplicate_blocks": 1, "duplicate_hashes": 1}},
        "batches": 2,
        "gaps": 0,
        "missed_batches": 0,
        "replayed_batches": 0,
        "refused_messages": 0,
        "restarts": 0,
    }


def test_targets_of_a_file_bring_their_publishers(
    publisher: Start,
    scripted_engine: Start,
    start_exporter: Start,
    page_of: Callable[..., Any],
    watching: Callable[..., Any],
    eventually: Callable[..., Any],
    tmp_path: Path,
) -> None:
    source, engine, file = publisher(), scripted_engine(page_of(1000, 900, 10)), tmp_path / "targets.json"
    labels = {"instance": "a", "zone": "x"}
    endpoint = {"__kv_events_endpoint__": source.endpoint.replace("127.0.0.1", "{host}")}
    group = {"targets": [engine.url.removeprefix("http://")], "labels": labels | endpoint}
    file.write_text(json.dumps([group]))
    exporter = start_exporter(watching(file_sd=(FileDiscovery((str(file),)),)))
    eventually(lambda: seen(exporter, "connected") == 1)
    source.publish(STORED_TWO)
    eventually(lambda: live(exporter) == (2, 0, 0))
    file.write_text(json.dumps([{**group, "labels": labels}]))
    eventually(lambda: seen(exporter, "connected") is None)
    eventually(lambda: exporter.samples()["hitcurve_exporter_targets"] == 1)


def test_promtool_has_nothing_to_say_about_them(
    publisher: Start, follow: Start, eventually: Callable[..., Any], promtool: str
) -> None:
    source = publisher()
    _, exporter = follow(KvEventsConfig(source.endpoint, ranks=2))
    source.publish(STORED_TWO, STORED_ONE_AGAIN, {**STORED_TWO, "medium": "CPU"})
    eventually(lambda: seen(exporter, "batches_total") == 1)
    assert seen(exporter, "live_blocks", "host") == 2
    assert seen(exporter, "connected", engine="1") == 0
    text = exporter.ask("/metrics").text
    shown = {name for name in text.split() if name.startswith("hitcurve_kv_events")}
    assert len({name.split("{")[0] for name in shown}) == len([m for m in CATALOGUE if m.group == "KV events"])
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_a_gap_without_replay_makes_live_blocks_unknown_until_a_reset(
    publisher: Start, follow: Start, eventually: Callable[..., Any]
) -> None:
    source = publisher()
    _, exporter = follow(KvEventsConfig(source.endpoint))
    eventually(lambda: seen(exporter, "connected") == 1)
    source.publish(STORED_TWO)
    source.publish(STORED_TWO, lost=True)
    source.publish(REMOVED_ONE)
    eventually(lambda: seen(exporter, "batches_total") == 2)
    assert live(exporter) == (None, None, None)
    assert (seen(exporter, "gaps_total"), seen(exporter, "missed_batches_total")) == (1, 1)
    assert seen(exporter, "complete") == 0
    source.publish(CLEARED, STORED_TWO)
    eventually(lambda: seen(exporter, "batches_total") == 3)
    assert live(exporter) == (2, 0, 0)
    assert seen(exporter, "clears_total") == 1


@pytest.mark.parametrize("frames_of_old", [False, True], ids=["since 0.21", "before"])
def test_a_gap_is_closed_by_a_replay(
    frames_of_old: bool, publisher: Start, follow: Start, eventually: Callable[..., Any]
) -> None:
    source = publisher(frames_of_old=frames_of_old)
    _, exporter = follow(KvEventsConfig(source.endpoint, source.replay_endpoint))
    source.publish(STORED_TWO, lost=True)
    assert source.answer() == 0
    eventually(lambda: live(exporter) == (2, 0, 0))
    source.publish(STORED_ONE_AGAIN, lost=True)
    source.publish(STORED_ONE_AGAIN, lost=True)
    source.publish(REMOVED_ONE)
    assert source.answer() == 0  # from the last batch it knows, to see that it is the same process
    eventually(lambda: seen(exporter, "batches_total") == 3)
    assert live(exporter) == (1, 2, 1)
    counts = [seen(exporter, f"{name}_total") for name in ("gaps", "missed_batches", "replayed_batches")]
    assert counts == [1, 2, 2]


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this machine has no IPv6")
def test_addresses_of_ipv6_and_a_topic(publisher: Start, follow: Start, eventually: Callable[..., Any]) -> None:
    source = publisher(host="[::1]", topic=b"kv")
    source.publish(STORED_TWO, lost=True)
    _, exporter = follow(KvEventsConfig(source.endpoint, source.replay_endpoint, "kv"))
    assert source.answer() == 0
    source.publish(STORED_ONE_AGAIN)
    eventually(lambda: live(exporter) == (2, 1, 1))


def test_a_replay_with_holes_is_asked_for_again(
    publisher: Start, follow: Start, eventually: Callable[..., Any]
) -> None:
    source = publisher()
    for number in range(6):
        source.publish({"type": "BlockStored", "block_hashes": [number]}, lost=True)
    _, exporter = follow(KvEventsConfig(source.endpoint, source.replay_endpoint))
    assert source.answer(without=frozenset({2, 3})) == 0
    assert source.answer() == 2
    eventually(lambda: live(exporter) == (6, 0, 0))


def test_a_reset_that_is_heard_is_a_cut_and_is_told_once(
    publisher: Start, follow: Start, eventually: Callable[..., Any], page_of: Start
) -> None:
    source = publisher()
    engine, exporter = follow(KvEventsConfig(source.endpoint))
    eventually(lambda: seen(exporter, "connected") == 1)
    engine.scraped_again()
    resets = f'hitcurve_cache_resets_total{{{engine.labels.replace(engine.url, "a")},zone="x"}}'
    assert exporter.samples()[resets] == 0
    source.publish(CLEARED)
    eventually(lambda: exporter.samples()[resets] == 1)
    source.publish(CLEARED)
    eventually(lambda: seen(exporter, "clears_total") == 2)
    curve = exporter.ask("/api/v1/engines/a/curve").json()
    assert [cut["kind"] for cut in curve["cuts"]] == ["start", "reset"]


def test_a_publisher_that_went_leaves_nothing_live(
    publisher: Start, follow: Start, eventually: Callable[..., Any]
) -> None:
    source = publisher()
    _, exporter = follow(KvEventsConfig(source.endpoint))
    eventually(lambda: seen(exporter, "connected") == 1)
    source.publish(STORED_TWO)
    eventually(lambda: live(exporter) == (2, 0, 0))
    source.close()
    eventually(lambda: seen(exporter, "connected") == 0)
    assert live(exporter) == (None, None, None)
    assert (seen(exporter, "complete"), seen(exporter, "stored_blocks_total", "device")) == (0, 2)


def test_what_is_no_batch_is_counted_and_costs_nothing_else(
    publisher: Start, follow: Start, eventually: Callable[..., Any]
) -> None:
    source = publisher()
    _, exporter = follow(KvEventsConfig(source.endpoint))
    source.send(b"only one frame")
    source.send(b"", b"short", b"")
    source.send(b"", (0).to_bytes(8, "big"), b"\xc1")
    eventually(lambda: seen(exporter, "refused_messages_total") == 3)
    eventually(lambda: exporter.samples().get('hitcurve_up{target="a",zone="x"}') == 1)
