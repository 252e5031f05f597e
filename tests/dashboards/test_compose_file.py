"""compose.yaml under the real Compose binary, and the house rules it cannot check."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hitcurve_dashboards.build import DASHBOARD_FOLDER
from hitcurve_dashboards.lint.expressions import expression_problems
from hitcurve_dashboards.lint.tree import metrics_in
from hitcurve_dashboards.names import known_metrics
from hitcurve_dashboards.rules.document import rule_groups
from hitcurve_engine.recording.sinks import EngineFacts
from hitcurve_engine.spans.attributes import resource_attributes
from hitcurve_exporter.configuration.load import configuration_from_file

LOCUST = {"locust", "locust-worker"}
PROFILES = {
    "gpu": {"vllm", "exporter", "prometheus", "grafana", "collector", "tempo", *LOCUST},
    "cpu": {"vllm-cpu", "exporter-cpu", "prometheus", "grafana", "collector", "tempo", *LOCUST},
    "sim": {"sim-0", "sim-1", "exporter-sim", "load-sim-0", "load-sim-1", "prometheus", "grafana", *LOCUST},
    "chaos": {"chaos", "chaos-sim", "prometheus", "grafana"},
}


def compose(binary: str, *arguments: str, repository: Path) -> subprocess.CompletedProcess[str]:
    command = [binary, "--project-directory", str(repository), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=repository)


@pytest.fixture(scope="module")
def services(compose_binary: str, repository: Path) -> dict[str, Any]:
    """Every service as Compose understands it."""
    shown = compose(compose_binary, "--profile", "*", "config", "--format", "json", repository=repository)
    assert shown.returncode == 0, shown.stderr
    found: dict[str, Any] = json.loads(shown.stdout)["services"]
    return found


@pytest.mark.parametrize("profile", PROFILES)
def test_compose_finds_each_profile_good(profile: str, compose_binary: str, repository: Path) -> None:
    checked = compose(compose_binary, "--profile", profile, "config", "-q", repository=repository)
    assert (checked.returncode, checked.stderr) == (0, "")
    listed = compose(compose_binary, "--profile", profile, "config", "--services", repository=repository)
    assert set(listed.stdout.split()) == PROFILES[profile]


def test_gpu_is_the_profile_unless_told_otherwise(compose_binary: str, repository: Path) -> None:
    listed = compose(compose_binary, "config", "--services", repository=repository)
    assert set(listed.stdout.split()) == PROFILES["gpu"]


def test_compose_notices_a_misspelt_key(compose_binary: str, repository: Path, tmp_path: Path) -> None:
    broken = tmp_path / "compose.yaml"
    broken.write_text((repository / "compose.yaml").read_text().replace("healthcheck:", "healthchek:", 1))
    checked = compose(compose_binary, "-f", str(broken), "--profile", "*", "config", "-q", repository=repository)
    assert checked.returncode != 0
    assert "healthchek" in checked.stderr


def test_every_service_is_confined(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.get("privileged"), name
        for port in service.get("ports", []):
            assert port["host_ip"] == "127.0.0.1", name
        if not name.startswith("vllm"):
            assert service["read_only"] is True, name
            assert re.fullmatch(r"[1-9]\d*:\d+", service["user"]), name
            assert service["deploy"]["resources"]["limits"], name


def test_every_image_is_pinned(services: dict[str, Any]) -> None:
    for name, service in services.items():
        image, _, tag = service["image"].rpartition(":")
        assert image, name
        assert tag not in ("", "latest"), name


def test_what_serves_has_a_health_check(services: dict[str, Any]) -> None:
    without = {name for name, service in services.items() if "healthcheck" not in service}
    assert without == {"collector", "chaos", "chaos-sim", "load-sim-0", "load-sim-1", "locust-worker"}
    for name, service in services.items():
        for other, dependence in service.get("depends_on", {}).items():
            wanted = "service_started" if other == "collector" else "service_healthy"
            assert dependence["condition"] == wanted, f"{name} on {other}"


def test_no_secret_stands_in_the_file(repository: Path) -> None:
    text = (repository / "compose.yaml").read_text() + (repository / ".env").read_text()
    assert not re.search(r"(?im)^[^#\n]*(password|token|secret|api_key)\w*\s*[:=]", text)


def test_mounted_files_exist(services: dict[str, Any]) -> None:
    for name, service in services.items():
        for volume in service.get("volumes", []):
            if volume["type"] == "bind":
                assert Path(volume["source"]).exists(), f"{name}: {volume['source']}"
                assert volume["read_only"] is True, name


@pytest.mark.parametrize("profile", ["gpu", "cpu", "sim"])
def test_locust_has_a_master_and_workers_that_scale(
    profile: str, compose_binary: str, repository: Path, services: dict[str, Any]
) -> None:
    worker = services["locust-worker"]
    assert not {"ports", "container_name"} & worker.keys(), "a second one could not be started"
    assert worker["command"][0] == "--worker"
    assert "--master-host=locust" in worker["command"]
    shown = compose(compose_binary, "--profile", profile, "config", "--format", "json", repository=repository)
    engines = [
        name
        for name, service in json.loads(shown.stdout)["services"].items()
        if "engine" in (service["networks"]["stack"] or {}).get("aliases", [])
    ]
    assert engines, "nothing answers to the host that Locust asks"
    assert "--host=http://engine:8000" in services["locust"]["command"]


@pytest.mark.parametrize(
    ("profile", "names"), [("gpu", ["vllm"]), ("cpu", ["vllm-cpu"]), ("sim", ["sim-0", "sim-1"])]
)
def test_the_exporter_accepts_its_configuration(profile: str, names: list[str], repository: Path) -> None:
    config = configuration_from_file(repository / f"exporter/compose/{profile}.yml")
    assert [target.name for target in config.targets] == names
    prometheus = (repository / "dashboards/prometheus/prometheus.yml").read_text()
    asked = yaml.safe_load(prometheus)["scrape_configs"][1]["dns_sd_configs"][0]["names"]
    assert set(names) <= set(asked)


def test_a_span_leads_back_to_the_numbers_of_its_engine(repository: Path) -> None:
    text = (repository / "dashboards/grafana/provisioning/datasources/hitcurve.yml").read_text()
    prometheus, tempo = yaml.safe_load(text)["datasources"]
    back = tempo["jsonData"]["tracesToMetrics"]
    assert back["datasourceUid"] == prometheus["uid"]
    facts = EngineFacts(block_size=16, pool_blocks=64, groups=1, pid=1, wall_offset_s=0.0, model_name="m")
    assert {tag["key"] for tag in back["tags"]} <= resource_attributes(facts, {}).keys()
    labels = ",".join(f'{tag["value"]}="x"' for tag in back["tags"])
    # Grafana reads $$ as one $, and puts labels in its place.
    for query in back["queries"]:
        assert query["query"].count("$$__tags") == query["query"].count("$") / 2 > 0
        assert expression_problems(query["query"].replace("$$__tags", labels), known_metrics()) == []


def test_prometheus_keeps_exemplars_for_the_panel_that_shows_them(services: dict[str, Any]) -> None:
    assert "--enable-feature=exemplar-storage" in services["prometheus"]["command"]


def test_chaos_accepts_its_targets(repository: Path) -> None:
    file = str(repository / "chaos/compose/targets.yml")
    command = [
        sys.executable,
        "-m",
        "hitcurve",
        "chaos",
        "run",
        "reset-prefix-cache",
        "--dry-run",
        "--targets",
        file,
    ]
    for target in ("sim-0", "vllm"):
        shown = subprocess.run([*command, "--target", target], capture_output=True, text=True, timeout=60)
        assert shown.returncode == 0, shown.stderr


def test_prometheus_finds_a_chaos_run(services: dict[str, Any], repository: Path) -> None:
    (ours, _) = yaml.safe_load((repository / "dashboards/prometheus/prometheus.yml").read_text())["scrape_configs"]
    ports = {name: entry["port"] for entry in ours["dns_sd_configs"] for name in entry["names"]}
    runs = {name: service for name, service in services.items() if name.startswith("chaos")}
    assert ports.keys() == {"exporter", *runs}
    for name, service in runs.items():
        assert f"--metrics-listen=0.0.0.0:{ports[name]}" in service["command"]
        assert "ports" not in service, "it is read inside the network only"


def test_prometheus_finds_the_suite_of_a_night_on_the_machine_itself(
    compose_binary: str, repository: Path
) -> None:
    layers = ("-f", "compose.yaml", "-f", "chaos/compose/nightly.yaml", "--profile", "gpu")
    shown = compose(compose_binary, *layers, "config", "--format", "json", repository=repository)
    assert shown.returncode == 0, shown.stderr
    prometheus = json.loads(shown.stdout)["services"]["prometheus"]
    assert prometheus["extra_hosts"] == ["host.docker.internal=host-gateway"]
    (ours, _) = yaml.safe_load((repository / "dashboards/prometheus/prometheus.yml").read_text())["scrape_configs"]
    (pattern,) = ours["file_sd_configs"][0]["files"]
    (mounted,) = [one for one in prometheus["volumes"] if Path(one["target"]).match(pattern)]
    (group,) = yaml.safe_load(Path(mounted["source"]).read_text())
    (address,) = group["targets"]
    host, _, port = address.partition(":")
    assert host == "host.docker.internal"
    assert f':{port}"' in (repository / ".github/workflows/nightly.yml").read_text()


def test_no_rule_minds_that_a_chaos_run_is_mostly_not_there() -> None:
    for group in rule_groups():
        for rule in group.rules:
            assert not {"up", "hitcurve_chaos_active"} & metrics_in(rule.expr, known_metrics()), rule


def test_a_chaos_run_that_is_documented_has_the_name_that_prometheus_asks_for(repository: Path) -> None:
    """A container of ``compose run`` has the name of its service only where it is asked for."""
    for file in ("compose.yaml", "docs/dashboards.md"):
        said = re.findall(r"docker compose .*?run .*?\bchaos[\w-]*", (repository / file).read_text())
        assert said, file
        assert all("--use-aliases" in command for command in said), said


def test_grafana_finds_what_is_mounted(services: dict[str, Any], repository: Path) -> None:
    provisioning = repository / "dashboards/grafana/provisioning"
    provider = yaml.safe_load((provisioning / "dashboards/hitcurve.yml").read_text())["providers"][0]
    mounts = {volume["target"]: volume["source"] for volume in services["grafana"]["volumes"]}
    folder = Path(mounts[provider["options"]["path"]])
    assert folder == repository / "dashboards" / DASHBOARD_FOLDER
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (folder / Path(home).name).is_file()
    sources = yaml.safe_load((provisioning / "datasources/hitcurve.yml").read_text())["datasources"]
    scraped = yaml.safe_load((repository / "dashboards/prometheus/prometheus.yml").read_text())
    assert sources[0]["jsonData"]["timeInterval"] == scraped["global"]["scrape_interval"]
    assert sources[0]["jsonData"]["exemplarTraceIdDestinations"][0]["datasourceUid"] == sources[1]["uid"]
