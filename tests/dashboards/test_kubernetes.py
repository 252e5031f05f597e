"""``deploy/kubernetes`` as kubectl renders it, each object against Kubernetes' own schemas.

The three kinds of the Prometheus Operator are not in those schemas; their parts that matter here are compared.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from hitcurve_dashboards.boards import DASHBOARDS

OPERATOR = "monitoring.coreos.com/v1"
KUBERNETES = "1.32"
Objects = dict[tuple[str, str], dict[str, Any]]


def render(folder: Path) -> list[dict[str, Any]]:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed; it renders the kustomization")
    ended = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return list(yaml.safe_load_all(ended.stdout))


@pytest.fixture(scope="module")
def objects(repository: Path) -> Objects:
    found = render(repository / "deploy" / "kubernetes")
    return {(one["kind"], one["metadata"]["name"].removesuffix(_hash(one))): one for one in found}


def _hash(one: dict[str, Any]) -> str:
    """What kustomize appends to a ConfigMap's name so that a change of its contents restarts the pods."""
    name = str(one["metadata"]["name"])
    return "-" + name.rpartition("-")[2] if name.startswith("hitcurve-exporter-") else ""


def test_every_object_is_valid_in_one_namespace(objects: Objects) -> None:
    kinds: dict[str, int] = {}
    for (kind, _), one in objects.items():
        kinds[kind] = kinds.get(kind, 0) + 1
        assert one["metadata"]["namespace"] == "monitoring"
        if one["apiVersion"] != OPERATOR:
            kubernetes_validate.validate(one, KUBERNETES, strict=True)
    assert kinds == {
        "ConfigMap": len(DASHBOARDS) + 1,
        "Deployment": 1,
        "NetworkPolicy": 1,
        "PodMonitor": 1,
        "PrometheusRule": 1,
        "Service": 1,
        "ServiceMonitor": 1,
    }


def test_a_misspelt_field_would_be_found(objects: Objects) -> None:
    broken = json.loads(json.dumps(objects["Deployment", "hitcurve-exporter"]))
    broken["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, KUBERNETES, strict=True)


def test_dashboards_are_config_maps_for_grafanas_sidecar(objects: Objects, repository: Path) -> None:
    for path in (repository / "dashboards" / "grafana" / "dashboards").glob("*.json"):
        one = objects["ConfigMap", path.stem]
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert one["data"] == {path.name: path.read_text(encoding="utf-8")}
        assert len(path.read_bytes()) < 1024 * 1024, "Kubernetes takes no larger ConfigMap"


def test_the_rules_are_those_of_the_rule_files(objects: Objects, repository: Path) -> None:
    groups = objects["PrometheusRule", "hitcurve"]["spec"]["groups"]
    files = (repository / "dashboards" / "prometheus" / "rules").glob("*.yml")
    expected = [group for file in files for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]]
    assert sorted(groups, key=lambda group: group["name"]) == sorted(expected, key=lambda group: group["name"])


def test_monitors_policy_and_service_find_the_exporters_pods(objects: Objects) -> None:
    deployment = objects["Deployment", "hitcurve-exporter"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    (port,) = deployment["template"]["spec"]["containers"][0]["ports"]
    service = objects["Service", "hitcurve-exporter"]
    monitor = objects["ServiceMonitor", "hitcurve-exporter"]["spec"]
    policy = objects["NetworkPolicy", "hitcurve-exporter"]["spec"]
    for selector in (
        deployment["selector"]["matchLabels"],
        service["spec"]["selector"],
        policy["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert service["spec"]["ports"][0]["targetPort"] == port["name"] == policy["ingress"][0]["ports"][0]["port"]


def test_a_series_of_an_engine_can_be_joined_with_the_exporters(objects: Objects) -> None:
    """The exporter names what it reads from Prometheus JOB/INSTANCE; docs/exporter.md."""
    (endpoint,) = objects["PodMonitor", "hitcurve-engines"]["spec"]["podMetricsEndpoints"]
    series = {"__meta_kubernetes_pod_name": "vllm-7d"}
    for rule in endpoint["relabelings"]:
        joined = rule.get("separator", ";").join(series[label] for label in rule.get("sourceLabels", ()))
        series[rule["targetLabel"]] = rule.get("replacement", joined)
    assert series["target"] == f"{series['job']}/{series['instance']}" == "vllm/vllm-7d"


def test_the_exporters_configuration_is_good_and_names_the_job(objects: Objects, tmp_path: Path) -> None:
    (text,) = objects["ConfigMap", "hitcurve-exporter"]["data"].values()
    (tmp_path / "exporter.yaml").write_text(text)
    command = ["-m", "hitcurve", "exporter", "--config", str(tmp_path / "exporter.yaml"), "--check"]
    ended = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert yaml.safe_load(text)["source"]["matchers"] == 'job="vllm"'
