"""Where KV events are published: the section of the configuration, and the address of each rank."""

from pathlib import Path

import pytest

from hitcurve.errors import UsageError
from hitcurve_exporter.configuration.kv_events_records import KvEventsConfig, KvPublisher
from hitcurve_exporter.configuration.load import configuration_from_file


def test_each_rank_has_a_publisher_one_port_above() -> None:
    config = KvEventsConfig("tcp://h:5557", "tcp://h:6557", "kv", 3)
    assert config.publishers == (
        KvPublisher("0", "tcp://h:5557", "tcp://h:6557", "kv"),
        KvPublisher("1", "tcp://h:5558", "tcp://h:6558", "kv"),
        KvPublisher("2", "tcp://h:5559", "tcp://h:6559", "kv"),
    )


def configured(folder: Path, lines: str) -> KvEventsConfig | None:
    file = folder / "exporter.yaml"
    indented = "".join(f"      {line}\n" for line in lines.splitlines())
    file.write_text(f"targets:\n  - url: http://127.0.0.1:8000\n    kv_events:\n{indented}")
    (target,) = configuration_from_file(file).targets
    return target.kv_events


def test_the_configuration_names_the_publishers(tmp_path: Path) -> None:
    assert configured(tmp_path, "endpoint: tcp://127.0.0.1:5557") == KvEventsConfig("tcp://127.0.0.1:5557")
    everything = "endpoint: tcp://[::1]:5557\nreplay_endpoint: tcp://[::1]:5657\ntopic: kv\nranks: 8"
    assert configured(tmp_path, everything) == KvEventsConfig("tcp://[::1]:5557", "tcp://[::1]:5657", "kv", 8)
    assert configured(tmp_path, "endpoint: ipc:///run/kv\ntopic: ''") == KvEventsConfig("ipc:///run/kv")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("topic: kv", "'kv_events' has no 'endpoint'"),
        ("endpoint: tcp://*:5557", "an address to connect to, such as tcp://127.0.0.1:5557"),
        ("endpoint: http://h:1", "an address to connect to"),
        ("endpoint: tcp://h:99999", "an address to connect to"),
        ("endpoint: tcp://h:1\nranks: 0", "'ranks' must be a whole number, 1 or more"),
        ("endpoint: tcp://h:1\nranks: 300", "'ranks' must be a whole number, 1 to 256"),
        ("endpoint: ipc:///a\nranks: 2", "'endpoint' leaves no port for each of 2 ranks"),
        ("endpoint: tcp://h:65535\nranks: 2", "'endpoint' leaves no port for each of 2 ranks"),
        ("endpoint: tcp://h:5557\nreplay_endpoint: tcp://h:5558\nranks: 2", "overlap"),
        ("endpoint: tcp://h:5557\nreplay_endpoint: tcp://h:5557", "overlap"),
        ("endpoint: tcp://h:1\nreplay: tcp://h:2", "unknown key 'replay'"),
    ],
)
def test_a_mistake_in_it_is_told(tmp_path: Path, lines: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        configured(tmp_path, lines)
    assert said in str(caught.value)


def test_a_package_that_is_missing_is_named_with_its_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hitcurve_exporter.configuration.kv_events_settings.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"exporter.yaml:4: .*pip install 'hitcurve\[kv-events\]'"):
        configured(tmp_path, "endpoint: tcp://h:1")
