"""``hitcurve dashboards``: generate, verify, publish."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hitcurve.errors import BadFinding, UsageError
from hitcurve_dashboards.boards import DASHBOARDS
from hitcurve_dashboards.build import built, differing, write
from hitcurve_dashboards.lint.check import Findings, check_documents, check_queries
from hitcurve_dashboards.rules.document import RUNBOOKS
from hitcurve_dashboards.rules.records import DEFAULT, Objective

__all__ = ["app"]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Grafana dashboards and Prometheus rules: generate, verify, publish.",
)

Folder = Annotated[Path, typer.Option("--out", help="Folder with grafana/dashboards and prometheus/rules.")]
Runbooks = Annotated[str, typer.Option(help="Address of the folder with the runbook pages, for runbook_url.")]
Bound = Annotated[str, typer.Option(help="Seconds to the first token that the objective allows; a bucket bound.")]
Target = Annotated[float, typer.Option(min=0.5, max=0.99999, help="Share of requests that must keep the bound.")]


@app.command(epilog="Example:  hitcurve dashboards build --out deploy --ttft-bound 1.0 --ttft-target 0.95")
def build(
    out: Folder = Path("dashboards"),
    runbooks: Runbooks = RUNBOOKS,
    ttft_bound: Bound = DEFAULT.bound,
    ttft_target: Target = DEFAULT.target,
) -> None:
    """Write the dashboards as JSON and the rules as YAML; the same options give the same bytes."""
    files = built(Objective(_bucket_bound(ttft_bound), ttft_target), runbooks)
    write(files, out)
    for path in files:
        print(out / path)


@app.command(epilog="Example:  hitcurve dashboards check --prometheus http://127.0.0.1:9090 --rate-interval 1m")
def check(
    out: Annotated[
        Path | None, typer.Option("--out", help="Also check that the files below this folder are up to date.")
    ] = None,
    prometheus: Annotated[
        str | None, typer.Option(help="Also ask this Prometheus every query; it must scrape a fleet with traffic.")
    ] = None,
    rate_interval: Annotated[str, typer.Option(help="Value of $__rate_interval for --prometheus.")] = "1m",
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Look for unknown metrics, wrong PromQL, bad layout, empty panels. Exit code 1: something is wrong."""
    findings = check_documents()
    if out is not None:
        findings += Findings(problems=differing(built(), out))
    if prometheus is not None:
        findings += check_queries(prometheus.rstrip("/"), rate_interval)
    if as_json:
        print(json.dumps(asdict(findings), indent=2))
    else:
        _tell(findings)
    if findings.problems:
        raise BadFinding(f"{len(findings.problems)} problems in dashboards or rules.")


def _tell(findings: Findings) -> None:
    for problem in findings.problems:
        print(problem)
    for empty in findings.empty:
        print(f"empty, as allowed: {empty}", file=sys.stderr)
    print(
        f"{len(DASHBOARDS)} dashboards, {findings.expressions} expressions, {findings.executed} executed, "
        f"{len(findings.problems)} problems"
    )


def _bucket_bound(text: str) -> str:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 2560:
        raise UsageError(f"--ttft-bound must be a bucket bound in seconds such as 0.5, 1.0 or 2.5; got '{text}'.")
    return repr(seconds)
