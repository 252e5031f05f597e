"""Rules under promtool: they are well formed, and each alert fires when it should and is silent when not."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from hitcurve.reading import UNHEALTHY_STATES
from hitcurve_dashboards.lint.expressions import expression_problems
from hitcurve_dashboards.lint.rules import recorded_names
from hitcurve_dashboards.names import known_metrics
from hitcurve_dashboards.rules.document import rule_groups
from hitcurve_dashboards.rules.records import Alert

ALERTS = [rule for group in rule_groups() for rule in group.rules if isinstance(rule, Alert)]
GUARDS = {
    "curve: no traffic guard": (
        "hitcurve-alert-curve.yml",
        r"and on \(job,\s+target, engine\)\s+\(target_engine:hitcurve_query_tokens:rate5m\s+>\s+0\)",
        "",
        "curve_alerts_test.yml",
    ),
    "curve: fires at once": ("hitcurve-alert-curve.yml", r"for: 2m", "for: 0m", "curve_alerts_test.yml"),
    "rates: idle replicas count": ("hitcurve-alert-rates.yml", r">\s+100\)", "> 0)", "rate_alerts_test.yml"),
    "rates: fires during a deploy": ("hitcurve-alert-rates.yml", r"for: 30m", "for: 4m", "rate_alerts_test.yml"),
    "rates: only new names": (
        "hitcurve-record-pages.yml",
        r"or rate\(vllm_prefix_cache_hits_total\[5m\]\)",
        "",
        "rate_alerts_test.yml",
    ),
    "burn: long window only": (
        "hitcurve-alert-rates.yml",
        r"ttft_(good_)?requests:rate5m",
        r"ttft_\1requests:rate1h",
        "rate_alerts_test.yml",
    ),
    "burn: short window only": (
        "hitcurve-alert-rates.yml",
        r"model:vllm_ttft_good_requests:rate1h",
        "0 * model:vllm_ttft_good_requests:rate1h",
        "rate_alerts_test.yml",
    ),
    "records: only new names": (
        "hitcurve-record-pages.yml",
        r"or rate\(vllm_prefix_cache_queries_total\[5m\]\)",
        "",
        "recording_rules_test.yml",
    ),
    "patch: idle engines count": ("hitcurve-alert-patch.yml", r">\s+100\)", "> 0)", "patch_alerts_test.yml"),
    "patch: every miss counts": (
        "hitcurve-record-patch.yml",
        r'\{reason="capacity"\}',
        "",
        "patch_alerts_test.yml",
    ),
    "curve: idle ones count": (
        "hitcurve-alert-curve.yml",
        r"target_engine:hitcurve_query_tokens:rate5m\s+>\s+0\)",
        "target_engine:hitcurve_query_tokens:rate5m >= 0)",
        "curve_alerts_test.yml",
    ),
    "rates: a free pool counts": ("hitcurve-alert-rates.yml", r">\s+0\.95", "> 0", "rate_alerts_test.yml"),
    "rates: a rate that was always low counts": (
        "hitcurve-alert-rates.yml",
        r">\s+0\.1\)",
        "> 0)",
        "rate_alerts_test.yml",
    ),
    "scraping: what is down is stale too": (
        "hitcurve-alert-scraping.yml",
        r"and on \(job, instance,\s+target\)\s+hitcurve_up == 1",
        "",
        "scraping_alerts_test.yml",
    ),
    "scraping: fires at once": ("hitcurve-alert-scraping.yml", r"for: 5m", "for: 0m", "scraping_alerts_test.yml"),
}


def run(promtool: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([promtool, *map(str, arguments)], capture_output=True, text=True, timeout=60)


@pytest.fixture
def copied(rule_files: list[Path], repository: Path, tmp_path: Path) -> Path:
    """A folder with copies of the rules as they are built, and of their tests beside them."""
    (tmp_path / "rules").mkdir()
    for file in rule_files:
        (tmp_path / "rules" / file.name).write_text(file.read_text())
    shutil.copytree(repository / "dashboards/prometheus/tests", tmp_path / "tests")
    return tmp_path


def test_promtool_finds_the_rules_good(promtool: str, rule_files: list[Path]) -> None:
    checked = run(promtool, "check", "rules", *rule_files)
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.count("SUCCESS") == len(rule_files)


def test_promtool_finds_the_shipped_configuration_good(promtool: str, repository: Path) -> None:
    checked = run(promtool, "check", "config", repository / "dashboards/prometheus/prometheus.yml")
    assert checked.returncode == 0, checked.stderr


def test_alerts_fire_when_they_should_and_only_then(promtool: str, repository: Path) -> None:
    files = sorted((repository / "dashboards/prometheus/tests").glob("*.yml"))
    assert [file.name for file in files] == [
        "curve_alerts_test.yml",
        "patch_alerts_test.yml",
        "rate_alerts_test.yml",
        "recording_rules_test.yml",
        "scraping_alerts_test.yml",
    ]
    tested = run(promtool, "test", "rules", *files)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_every_alert_is_seen_firing(repository: Path) -> None:
    firing = set()
    for file in (repository / "dashboards/prometheus/tests").glob("*_alerts_test.yml"):
        for case in yaml.safe_load(file.read_text())["tests"]:
            for asked in case.get("promql_expr_test", []):
                firing |= set(re.findall(r'alertname="(\w+)"', str(asked["exp_samples"])))
    assert firing == {alert.name for alert in ALERTS}


@pytest.mark.parametrize("name", GUARDS)
def test_the_tests_notice_a_rule_without_its_guard(name: str, promtool: str, copied: Path) -> None:
    file, pattern, replacement, test = GUARDS[name]
    broken = copied / "rules" / file
    text = broken.read_text()
    assert re.search(pattern, text)
    broken.write_text(re.sub(pattern, replacement, text))
    assert run(promtool, "check", "rules", broken).returncode == 0
    assert run(promtool, "test", "rules", copied / "tests" / test).returncode == 1


FILES = {"curve": "hitcurve-alert-curve", "patch": "hitcurve-alert-patch", "scraping": "hitcurve-alert-scraping"}
"""Not the rates: promtool takes seconds for their tests, and GUARDS breaks those."""
WAITING = [
    (test, group.name, alert.name)
    for test, file in FILES.items()
    for group in rule_groups()
    if group.name == file
    for alert in group.rules
    if isinstance(alert, Alert) and alert.hold != "0m"
]


@pytest.mark.parametrize(("test", "group", "alert"), WAITING, ids=[alert for _, _, alert in WAITING])
def test_the_tests_notice_an_alert_that_does_not_wait(
    test: str, group: str, alert: str, promtool: str, copied: Path
) -> None:
    broken = copied / "rules" / f"{group}.yml"
    document = yaml.safe_load(broken.read_text())
    (rule,) = [one for one in document["groups"][0]["rules"] if one["alert"] == alert]
    rule["for"] = "0m"
    broken.write_text(yaml.safe_dump(document))
    assert run(promtool, "test", "rules", copied / "tests" / f"{test}_alerts_test.yml").returncode == 1


def test_every_unhealthy_state_has_an_alert() -> None:
    for state in UNHEALTHY_STATES:
        assert [alert.name for alert in ALERTS if f'state=~"{state}"' in alert.expr], state


def test_every_alert_has_a_runbook_page_with_its_parts(repository: Path) -> None:
    pages = {path.stem: path.read_text() for path in (repository / "docs/runbooks").glob("*.md")}
    assert pages.keys() == {alert.page for alert in ALERTS} | {"README"}
    for alert in ALERTS:
        page = pages[alert.page]
        headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
        assert headings == ["What it means", "Confirm", "What to do", "Silence"], alert.page
        assert alert.name in page
        assert alert.page in pages["README"]


def test_every_query_of_a_runbook_is_good(repository: Path) -> None:
    groups = rule_groups()
    known = known_metrics(recorded_names(groups))
    for page in sorted((repository / "docs/runbooks").glob("*.md")):
        queries = queries_of(page)
        assert len(queries) == (0 if page.stem == "README" else 2), page.name
        for query in queries:
            assert expression_problems(query, known) == [], page.name


def queries_of(page: Path) -> list[str]:
    """The PromQL lines below "Confirm"."""
    _, _, confirm = page.read_text().partition("## Confirm\n")
    block = confirm.partition("```\n")[2].partition("```")[0]
    return [line for line in block.splitlines() if line and not line.startswith("#")]
