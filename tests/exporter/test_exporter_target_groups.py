"""Target groups, as Prometheus writes them and with what hitcurve adds."""

import json

import pytest
import yaml

from hitcurve_exporter.configuration.kv_events_records import KvEventsConfig
from hitcurve_exporter.configuration.records import TargetConfig
from hitcurve_exporter.discovery.groups import BadGroups, parse_groups

GROUPS = [
    {
        "targets": ["10.0.0.1:8000", "10.0.0.2:8000"],
        "labels": {"zone": "a", "job": "vllm", "__meta_x": "y", "no": ""},
    },
    {
        "targets": ["e.example:443"],
        "labels": {"__scheme__": "https", "__metrics_path__": "/x", "instance": "e", "engine": "9"},
    },
    {"targets": ["http://10.0.0.3:8000/m"]},
    {"targets": []},
]
EXPECTED = (
    TargetConfig("http://10.0.0.1:8000", "http://10.0.0.1:8000/metrics", "http://10.0.0.1:8000", (("zone", "a"),)),
    TargetConfig("http://10.0.0.2:8000", "http://10.0.0.2:8000/metrics", "http://10.0.0.2:8000", (("zone", "a"),)),
    TargetConfig("https://e.example:443/x", "https://e.example:443/x", "e"),
    TargetConfig("http://10.0.0.3:8000/m", "http://10.0.0.3:8000/m", "http://10.0.0.3:8000/m"),
)


def test_groups_are_read_as_prometheus_reads_them() -> None:
    assert parse_groups(json.dumps(GROUPS).encode(), as_yaml=False) == EXPECTED
    assert parse_groups(yaml.safe_dump(GROUPS).encode(), as_yaml=True) == EXPECTED
    assert parse_groups(b"# none yet\n", as_yaml=True) == ()


def test_a_group_says_where_its_engines_publish_kv_events() -> None:
    labels = {
        "__kv_events_endpoint__": "tcp://{host}:5557",
        "__kv_events_topic__": "kv",
        "__kv_events_ranks__": "2",
    }
    groups = [
        {"targets": ["10.0.0.1:8000", "[::1]:8000"], "labels": labels},
        {"targets": ["e.example:1"], "labels": {"__kv_events_replay_endpoint__": "tcp://e.example:5657"}},
    ]
    first, second, without = parse_groups(json.dumps(groups).encode(), as_yaml=False)
    assert first.kv_events == KvEventsConfig("tcp://10.0.0.1:5557", None, "kv", 2)
    assert second.kv_events == KvEventsConfig("tcp://[::1]:5557", None, "kv", 2)
    assert (without.kv_events, without.labels) == (None, ())


def test_long_labels_and_names_of_a_group_are_cut_to_different_ones() -> None:
    groups = [
        {"targets": ["a:1"], "labels": {"instance": "n" * 10_000 + end, "zone": "z" * 10_000 + end}}
        for end in "xy"
    ]
    one, other = parse_groups(json.dumps(groups).encode(), as_yaml=False)
    assert {len(text) for text in (one.name, one.labels[0][1], other.name, other.labels[0][1])} == {200}
    assert (one.name, one.labels) != (other.name, other.labels)
    assert one.name.startswith("n" * 187 + "~")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ('{"targets": []}', 'it must be a list such as [{"targets": ["10.0.0.1:8000"], "labels": {"zone": "a"}}]'),
        (
            "[{}]",
            "group 1 has no list of 'targets'; write it such as "
            '[{"targets": ["10.0.0.1:8000"], "labels": {"zone": "a"}}]',
        ),
        ('[{"targets": ["a:1"], "labels": {"n": 1}}]', "the labels of group 1 are not names with texts"),
        ('[{"targets": [8000]}]', "a target of group 1 must be a text"),
        ('[{"targets": ["8000"]}]', "a target of group 1 must be an address such as http://127.0.0.1:8000"),
        ('[{"targets": ["{host}:1"]}]', "a target of group 1 must be an address such as http://127.0.0.1:8000"),
        (
            '[{"targets": ["a:1"], "labels": {"__kv_events_endpoint__": "tcp://*:5557"}}]',
            "the KV events of group 1 must be an address to connect to, such as tcp://127.0.0.1:5557 "
            "(the engine's '*' is its host)",
        ),
        (
            '[{"targets": ["a:1"], "labels": {"__kv_events_endpoint__": "ipc://a", "__kv_events_ranks__": "0"}}]',
            "the KV events of group 1 must be a whole number, 1 or more",
        ),
        (
            '[{"targets": ["a:1"], "labels": {"__kv_events_endpoint__": "ipc://a", "__kv_events_ranks__": "2"}}]',
            "the KV events of group 1 must be addresses whose ports leave one for each rank and do not overlap",
        ),
        (
            '[{"targets": ["http://u:p@a:1"]}]',
            "a target of group 1 must be an address without user name and password, since it becomes a label",
        ),
    ],
)
def test_what_is_no_list_of_groups_is_refused_whole(text: str, why: str) -> None:
    with pytest.raises(BadGroups) as refused:
        parse_groups(text.encode(), as_yaml=False)
    assert str(refused.value) == why
