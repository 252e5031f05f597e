"""Targets that come and go: files, addresses, shards."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hitcurve.errors import UsageError
from hitcurve_exporter.configuration.discovery_records import FileDiscovery, HttpDiscovery, Shard
from hitcurve_exporter.configuration.discovery_settings import shard_from_option
from hitcurve_exporter.configuration.load import configuration_from_file
from hitcurve_exporter.configuration.records import ExporterConfig
from hitcurve_exporter.configuration.targets import a_target
from hitcurve_exporter.discovery.files import TargetFiles
from hitcurve_exporter.discovery.selection import Selection, select, shard_of

Start = Callable[..., Any]
Configure = Callable[..., ExporterConfig]
Eventually = Callable[..., Any]
PageOf = Callable[..., str]


def write(file: Path, groups: Any) -> None:
    """As whoever writes such files should: whole or not at all."""
    new = file.with_suffix(".new")
    new.write_text(json.dumps(groups))
    os.replace(new, file)


def address(engine: Any) -> str:
    host: str = engine.url.removeprefix("http://")
    return host


def scraped(exporter: Any) -> set[str]:
    """Targets that the page speaks of."""
    names = exporter.samples()
    return {name.split('target="')[1].split('"')[0] for name in names if 'target="' in name}


@given(st.lists(st.integers(1, 500), unique=True, max_size=40), st.integers(1, 7), st.integers(1, 20))
def test_shards_are_a_partition_that_depends_on_nothing_else(hosts: list[int], count: int, most: int) -> None:
    targets = [a_target(f"http://engine-{host}:8000") for host in hosts]
    parts = [select(targets, Shard(index, count), 1000).targets for index in range(count)]
    assert sorted(target.url for part in parts for target in part) == sorted(target.url for target in targets)
    alone = [select([target], Shard(index, count), 1000).targets for target in targets for index in range(count)]
    assert sum(map(len, alone)) == len(targets)
    assert select(targets, Shard(), most) == Selection(tuple(targets[:most]), max(0, len(targets) - most))


def test_an_address_or_name_that_comes_again_is_left_out() -> None:
    first, other = a_target("http://a:1", "x"), a_target("http://b:1", "y")
    again, same_name = a_target("http://a:1/metrics", "z"), a_target("http://c:1", "y")
    assert select([first, other, again, same_name], Shard(), 10).targets == (first, other)


def test_the_shard_is_what_hashmod_of_prometheus_says(promtool: str, tmp_path: Path) -> None:
    urls = [f"http://10.0.0.{host}:8000/metrics" for host in range(6)]
    rule = {"source_labels": ["url"], "modulus": 7, "target_label": "shard", "action": "hashmod"}
    jobs = [{"targets": [f"h{n}:1"], "labels": {"url": url}} for n, url in enumerate(urls)]
    config = {"scrape_configs": [{"job_name": "j", "static_configs": jobs, "relabel_configs": [rule]}]}
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    command = [promtool, "check", "service-discovery", "--timeout", "1s", str(file), "j"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    shards = {one["labels"]["url"]: int(one["labels"]["shard"]) for one in json.loads(done.stdout)}
    assert shards == {url: shard_of(a_target(url), 7) for url in urls}


def test_files_are_read_when_they_change_and_keep_their_last_good_targets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = TargetFiles(FileDiscovery((str(tmp_path / "a*.json"), str(tmp_path / "b.yaml"))))
    assert files.refresh() is False
    write(tmp_path / "a1.json", [{"targets": ["one:1"]}])
    write(tmp_path / "a2.json", [{"targets": ["two:1"]}])
    (tmp_path / "b.yaml").write_text("- targets: [three:1]\n")
    assert files.refresh() is True
    assert [target.url for target in files.targets] == ["http://one:1", "http://two:1", "http://three:1"]
    assert files.refresh() is False
    (tmp_path / "a2.json").write_text('[{"targets": ["tw')
    assert (files.refresh(), files.failures) == (False, 1)
    assert (files.refresh(), files.failures) == (False, 1)
    assert len(files.targets) == 3
    assert caplog.messages == [f"the last good targets of {tmp_path}/a2.json stay, since it is not JSON"]
    (tmp_path / "a1.json").unlink()
    assert files.refresh() is True
    assert [target.url for target in files.targets] == ["http://two:1", "http://three:1"]


def test_targets_of_a_file_come_and_go_without_a_reload(
    scripted_engine: Start,
    start_exporter: Start,
    eventually: Eventually,
    page_of: PageOf,
    watching: Configure,
    tmp_path: Path,
) -> None:
    """EXP-29 by discovery: the series of a target that left are gone with it, the other's history stays."""
    a, b = scripted_engine(page_of(1000, 500, 10)), scripted_engine(page_of(1000, 500, 10))
    file = tmp_path / "targets.json"
    write(file, [{"targets": [address(a), address(b)]}])
    exporter = start_exporter(watching(file_sd=(FileDiscovery((str(file),)),)))
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    assert scraped(exporter) == {a.url, b.url}
    a.page = page_of(1600, 950, 16)
    a.scraped_again()
    write(file, [{"targets": [address(a)]}])
    eventually(lambda: scraped(exporter) == {a.url})
    seen = exporter.samples()
    assert seen[f"hitcurve_query_tokens_total{{{a.labels}}}"] == 600
    assert seen["hitcurve_exporter_targets"] == 1
    file.write_text("half a fi")
    eventually(lambda: exporter.samples()["hitcurve_exporter_discovery_failures_total"] == 1)
    assert scraped(exporter) == {a.url}
    write(file, [])
    eventually(lambda: scraped(exporter) == set())
    assert exporter.ask("/-/ready").status == 200


def test_targets_of_an_address_come_and_go(
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf, watching: Configure
) -> None:
    a, b = scripted_engine(page_of(10, 5)), scripted_engine(page_of(10, 5))
    directory = scripted_engine(json.dumps([{"targets": [address(b)], "labels": {"zone": "z"}}]))
    config = watching(a.url, http_sd=(HttpDiscovery(directory.url, 0.1),))
    exporter = start_exporter(config)
    eventually(lambda: exporter.ask("/-/ready").status == 200 and scraped(exporter) == {a.url, b.url})
    assert f'hitcurve_up{{target="{b.url}",zone="z"}}' in exporter.samples()
    assert directory.headers_seen[0]["Accept"] == "application/json"
    directory.status = 500
    eventually(lambda: exporter.samples()["hitcurve_exporter_discovery_failures_total"] >= 2)
    assert scraped(exporter) == {a.url, b.url}
    directory.status, directory.page = 200, "[]"
    eventually(lambda: scraped(exporter) == {a.url})


def test_a_reload_changes_the_sources_and_failures_never_fall(
    scripted_engine: Start,
    start_exporter: Start,
    eventually: Eventually,
    page_of: PageOf,
    watching: Configure,
    tmp_path: Path,
) -> None:
    a = scripted_engine(page_of(10, 5))
    (tmp_path / "bad.json").write_text("bad")
    write(tmp_path / "good.json", [{"targets": [address(a)]}])
    config = watching(file_sd=(FileDiscovery((str(tmp_path / "bad.json"),)),))
    changed = replace(config, file_sd=(FileDiscovery((str(tmp_path / "good.json"),)),), max_targets=1)
    exporter = start_exporter(config, read_again=lambda: changed)
    assert exporter.samples()["hitcurve_exporter_discovery_failures_total"] == 1
    assert exporter.ask("/-/reload", data=b"").status == 200
    assert scraped(exporter) in ({a.url}, set())
    eventually(lambda: scraped(exporter) == {a.url})
    assert exporter.samples()["hitcurve_exporter_discovery_failures_total"] == 1
    write(tmp_path / "good.json", [{"targets": [address(a), "127.0.0.1:9"]}])
    eventually(lambda: exporter.samples()["hitcurve_exporter_targets_over_limit"] == 1)
    assert scraped(exporter) == {a.url}


def test_two_shards_share_the_targets(start_exporter: Start, eventually: Eventually, watching: Configure) -> None:
    urls = [f"http://127.0.0.{n}:9" for n in range(1, 9)]
    exporters = [start_exporter(watching(*urls, shard=Shard(index, 2))) for index in range(2)]
    parts = []
    for exporter in exporters:
        eventually(lambda exporter=exporter: exporter.ask("/-/ready").status == 200)
        parts.append(scraped(exporter))
    assert parts[0] | parts[1] == set(urls)
    assert parts[0] & parts[1] == set()
    assert all(parts)


def test_the_configuration_names_sources_and_shard(tmp_path: Path) -> None:
    file = tmp_path / "exporter.yaml"
    file.write_text(
        "file_sd_configs: [{files: [t/*.json, /etc/more.yaml], refresh_interval: 5m}]\n"
        "http_sd_configs: [{url: 'http://d:1/t?x=1', refresh_interval: 30s}, {url: 'http://e:1'}]\n"
        "shard: {index: 1, count: 3}\n"
    )
    config = configuration_from_file(file)
    assert config.targets == ()
    assert config.file_sd == (FileDiscovery((str(tmp_path / "t/*.json"), "/etc/more.yaml")),)
    assert config.http_sd == (HttpDiscovery("http://d:1/t?x=1", 30.0), HttpDiscovery("http://e:1", 60.0))
    assert config.shard == Shard(1, 3)
    assert shard_from_option("1/3") == Shard(1, 3)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "file_sd_configs: [{files: ['*/t.json']}]",
            "'files' must be a path that ends in .json, .yaml or .yml, with '*' in its last part only; "
            "got '*/t.json'",
        ),
        ("file_sd_configs: [{files: []}]", "this entry names no files; add 'files: [targets/*.json]'."),
        (
            "http_sd_configs: [{}]",
            "this entry has no 'url'; add one such as 'url: http://127.0.0.1:8080/targets'.",
        ),
        (
            "http_sd_configs: [{url: 'http://a', refresh_interval: 10ms}]",
            "'refresh_interval' must be a duration of at least 1s; got '10ms'",
        ),
        ("shard: {count: 2}", "'shard' has no 'index'; write it as 'shard: {index: 0, count: 2}'."),
        ("shard: {index: 2, count: 2}", "'index' counts from 0 to 1, not 2."),
    ],
)
def test_mistakes_in_sources_and_shard_are_told(line: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "exporter.yaml"
    file.write_text(f"{line}\ntargets: [{{url: 'http://a:1'}}]\n")
    with pytest.raises(UsageError) as wrong:
        configuration_from_file(file)
    assert str(wrong.value) == f"{file}:1: {sentence}"


@pytest.mark.parametrize("text", ["2/2", "1", "a/b", "-1/2", "0/0", ""])
def test_a_shard_option_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--shard must be INDEX/COUNT such as 0/2"):
        shard_from_option(text)
