"""The configuration file: what is read, and how a mistake is told."""

# ruff: noqa: E501  (one mistake and its sentence a line reads best)

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve.errors import UsageError
from hitcurve_exporter.configuration.durations import format_duration, parse_duration
from hitcurve_exporter.configuration.load import configuration_from_file, configuration_from_options
from hitcurve_exporter.configuration.records import ExporterConfig, ListenAddress, TargetConfig

ONE_TARGET = "targets:\n  - url: http://127.0.0.1:8000\n"


def read(folder: Path, text: str) -> ExporterConfig:
    file = folder / "exporter.yaml"
    file.write_text(text, encoding="utf-8")
    return configuration_from_file(file)


def complaint(folder: Path, text: str) -> str:
    with pytest.raises(UsageError) as caught:
        read(folder, text)
    return str(caught.value).replace(f"{folder}/", "")


def test_a_full_file_is_read(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
listen: "[::1]:9500"
interval: 1s
timeout: 500ms
max_body_bytes: 1000000
max_targets: 3
max_engines_per_target: 8
windows: [5m, 5s, 30s]
request_window: 200
allow_marks: true
targets:
  - url: http://10.0.0.1:8000/
    name: left
    labels: {zone: fra1}
  - url: https://engines.example/right/metrics
""",
    )
    assert config == ExporterConfig(
        targets=(
            TargetConfig("http://10.0.0.1:8000", "http://10.0.0.1:8000/metrics", "left", (("zone", "fra1"),)),
            TargetConfig(
                "https://engines.example/right/metrics",
                "https://engines.example/right/metrics",
                "https://engines.example/right/metrics",
            ),
        ),
        listen=ListenAddress("::1", 9500),
        interval_s=1.0,
        timeout_s=0.5,
        max_body_bytes=1_000_000,
        max_targets=3,
        max_engines_per_target=8,
        windows_s=(5.0, 30.0, 300.0),
        request_window=200,
        allow_marks=True,
    )


def test_everything_but_targets_has_a_default(tmp_path: Path) -> None:
    config = read(tmp_path, ONE_TARGET)
    assert (config.interval_s, config.timeout_s, config.windows_s) == (15.0, 5.0, (30.0, 60.0, 300.0, 3600.0))
    assert config.listen == ListenAddress("127.0.0.1", 9477)
    assert config == configuration_from_options(["http://127.0.0.1:8000"], None)


def test_defaults_follow_the_interval(tmp_path: Path) -> None:
    fast = read(tmp_path, "interval: 1s\n" + ONE_TARGET)
    slow = read(tmp_path, "interval: 10m\n" + ONE_TARGET)
    slowest = read(tmp_path, "interval: 2h\n" + ONE_TARGET)
    assert fast.timeout_s == 1.0
    assert slow.windows_s == (3600.0,)
    assert slowest.windows_s == (28_800.0,)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("interval: fast\n", "exporter.yaml:1: 'interval' must be a duration such as 15s, at least 100ms; got 'fast'"),
        (
            "\n\ninterval: 1ms\n",
            "exporter.yaml:3: 'interval' must be a duration such as 15s, at least 100ms; got '1ms'",
        ),
        ("timeout: 15\n", "exporter.yaml:1: 'timeout' must be a duration such as 15s; got '15'"),
        (
            "interval: 5s\ntimeout: 6s\n",
            "exporter.yaml:2: 'timeout' 6s is longer than the interval 5s; shorten it or scrape less often.",
        ),
        ("intervall: 15s\n", "exporter.yaml:1: unknown key 'intervall'; did you mean 'interval'?"),
        ("listen: 9477\n", "exporter.yaml:1: 'listen' must be HOST:PORT such as 127.0.0.1:9477; got '9477'"),
        ("listen: a:70000\n", "exporter.yaml:1: 'listen' must be HOST:PORT such as 127.0.0.1:9477; got 'a:70000'"),
        ("max_body_bytes: 12\n", "exporter.yaml:1: 'max_body_bytes' must be a whole number, 1024 or more; got '12'"),
        ("request_window: -1\n", "exporter.yaml:1: 'request_window' must be a whole number, 1 or more; got '-1'"),
        ("request_window: [1]\n", "exporter.yaml:1: 'request_window' must be a single value; got a list"),
        ("allow_marks: maybe\n", "exporter.yaml:1: 'allow_marks' must be true or false; got 'maybe'"),
        ("windows: 5m\n", "exporter.yaml:1: 'windows' must be a list such as [30s, 5m]; got '5m'"),
        ("windows: [5m, x]\n", "exporter.yaml:1: 'windows' must be a duration such as 15s; got 'x'"),
        ("windows: [5m, 300s]\n", "exporter.yaml:1: 'windows' names a duration twice; keep it once."),
        ("windows: []\n", "exporter.yaml:1: 'windows' must name 1 to 12 durations, not 0."),
        (
            "windows: [5s]\n",
            "exporter.yaml:1: the window 5s is shorter than the interval 15s, so no scrape would fall into it; "
            "make it longer.",
        ),
        ("interval: 5s\ninterval: 6s\n", "exporter.yaml:2: interval stands there twice; keep one of them."),
    ],
)  # fmt: skip
def test_a_mistake_names_file_line_key_and_cure(tmp_path: Path, text: str, sentence: str) -> None:
    assert complaint(tmp_path, text + ONE_TARGET) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "exporter.yaml:1: the file is empty; it needs at least 'targets:' with one '- url: http://…'."),
        ("# only a comment\n", "exporter.yaml:1: the file is empty; it needs at least 'targets:' with one '- url: http://…'."),
        ("42\n", "exporter.yaml:1: the file must be a mapping such as 'interval: 15s'."),
        ("a: [1\n", "exporter.yaml:2: not YAML (expected ',' or ']', but got '<stream end>'); check indentation, colons and quotes."),
        ("interval: 15s\n", "exporter.yaml:1: 'targets' names no engine; add at least '- url: http://127.0.0.1:8000' below it."),
        ("targets: []\n", "exporter.yaml:1: 'targets' names no engine; add at least '- url: http://127.0.0.1:8000' below it."),
        ("targets: http://a:1\n", "exporter.yaml:1: 'targets' must be a list of entries such as '- url: http://127.0.0.1:8000'; got 'http://a:1'"),
        ("targets:\n- http://a:1\n", "exporter.yaml:2: 'targets' must be a list of entries such as '- url: http://127.0.0.1:8000'; got 'http://a:1'"),
        ("targets:\n- name: a\n", "exporter.yaml:2: this target has no 'url'; add one such as 'url: http://127.0.0.1:8000'."),
        ("targets:\n- url: a:1\n", "exporter.yaml:2: 'url' must be an address such as http://127.0.0.1:8000; got 'a:1'"),
        ("targets:\n- url: http://a:x\n", "exporter.yaml:2: 'url' must be an address such as http://127.0.0.1:8000; got 'http://a:x'"),
        ("targets:\n- url: http://*:8000\n", "exporter.yaml:2: 'url' must be an address such as http://127.0.0.1:8000; got 'http://*:8000'"),
        ("targets:\n- url: http://-a:8000\n", "exporter.yaml:2: 'url' must be an address such as http://127.0.0.1:8000; got 'http://-a:8000'"),
        ("targets:\n- url: http://a,b:8000\n", "exporter.yaml:2: 'url' must be an address such as http://127.0.0.1:8000; got 'http://a,b:8000'"),
        ("targets:\n- url: http://1.2.3.400:8000\n", "exporter.yaml:2: 'url' must be an address such as http://127.0.0.1:8000; got 'http://1.2.3.400:8000'"),
        ("targets:\n- url: http://u:p@a\n", "exporter.yaml:2: 'url' must be an address without user name and password, since it becomes a label; got 'http://…@a'"),
        ("targets:\n- url: http://a\n  nmae: b\n", "exporter.yaml:3: unknown key 'nmae'; did you mean 'name'?"),
        ("targets:\n- url: http://a\n- url: http://a/\n", "exporter.yaml:3: 'url' http://a/metrics is already used on line 2; every target needs its own."),
        ("targets:\n- {url: http://a, name: n}\n- {url: http://b, name: n}\n", "exporter.yaml:3: 'name' n is already used on line 2; every target needs its own."),
        ("targets:\n- url: http://a\n  labels: {engine: x}\n", "exporter.yaml:3: the label 'engine' is hitcurve's or Prometheus' own; choose another name."),
        ("targets:\n- url: http://a\n  labels: {a-b: x}\n", "exporter.yaml:3: 'a-b' is not a label name; use letters, digits and '_'."),
        ("targets:\n- url: http://a\n  labels: x\n", "exporter.yaml:3: 'labels' must be a mapping such as 'zone: fra1'; got 'x'"),
        ("max_targets: 1\ntargets:\n- url: http://a\n- url: http://b\n", "exporter.yaml:3: 'targets' has 2 engines, 'max_targets' allows 1; raise it or run two exporters."),
    ],
)  # fmt: skip
def test_a_mistake_in_the_targets_is_found(tmp_path: Path, text: str, sentence: str) -> None:
    assert complaint(tmp_path, text) == sentence


def test_a_missing_and_a_binary_file_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.yaml cannot be read \(No such file or directory\)"):
        configuration_from_file(tmp_path / "gone.yaml")
    (tmp_path / "exporter.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="it is not UTF-8 text"):
        configuration_from_file(tmp_path / "exporter.yaml")


def test_a_value_that_holds_itself_is_refused(tmp_path: Path) -> None:
    assert complaint(tmp_path, "targets: &a {url: *a}\n") == (
        "exporter.yaml:1: values are nested too deep; write them plainly."
    )


def test_values_and_keys_are_read_as_they_are_written(tmp_path: Path) -> None:
    """YAML takes ``010`` for 8, ``0x10`` for 16, ``no`` and ``on`` for truth values."""
    config = read(tmp_path, "max_targets: 010\ntargets:\n- {url: 'http://a', name: 0x10, labels: {on: no}}\n")
    (target,) = config.targets
    assert (config.max_targets, target.name, target.labels) == (10, "0x10", (("on", "no"),))


@pytest.mark.parametrize(
    ("urls", "interval", "sentence"),
    [
        (["ftp://a"], None, "--target must be an address such as http://127.0.0.1:8000; got 'ftp://a'."),
        (["http://a", "http://a/"], None, "--target http://a is given twice; give every engine once."),
        (["http://a"], "soon", "--interval must be a duration such as 15s, at least 100ms; got 'soon'."),
    ],
)
def test_a_mistake_in_the_options_is_told(urls: list[str], interval: str | None, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        configuration_from_options(urls, interval)
    assert str(caught.value) == sentence


def test_options_take_a_bare_host_and_bare_seconds() -> None:
    config = configuration_from_options(["localhost:8000"], "2.5")
    assert (config.targets[0].metrics_url, config.interval_s) == ("http://localhost:8000/metrics", 2.5)


@pytest.mark.parametrize(
    ("text", "seconds"), [("15s", 15.0), ("1m30s", 90.0), ("1h", 3600.0), ("2d", 172_800.0), ("0.5s", 0.5), ("500ms", 0.5)]
)  # fmt: skip
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "15", "s", "15 s", "-5s", "0s", "1h30", "5x", "1s!", "١s", "3651d", "9" * 400 + "s"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@given(st.integers(1, 10**9))
def test_a_written_duration_reads_back(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-5)


@pytest.mark.parametrize("host", ["a", "a.example.", "vllm_1", "münchen.example", "[::1]", "10.0.0.1", "x" * 63])
def test_hosts_that_a_name_server_may_know_are_taken(tmp_path: Path, host: str) -> None:
    file = tmp_path / "exporter.yaml"
    file.write_text(f"targets: [{{url: 'http://{host}:8000'}}]\n", encoding="utf-8")
    assert configuration_from_file(file).targets[0].url == f"http://{host}:8000"
