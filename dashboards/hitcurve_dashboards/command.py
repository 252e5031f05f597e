"""``hitcurve dashboards``: generate, verify, publish."""

import json
import os
import sys
import urllib.parse
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hitcurve.address import base_address
from hitcurve.errors import BadFinding, UsageError
from hitcurve_dashboards.boards import DASHBOARDS
from hitcurve_dashboards.build import built, differing, write
from hitcurve_dashboards.lint.check import Findings, check_documents, check_queries
from hitcurve_dashboards.names import FIRST_TOKEN_BOUNDS
from hitcurve_dashboards.publish.annotate import annotate_run
from hitcurve_dashboards.publish.grafana import Grafana
from hitcurve_dashboards.publish.push import push as push_all
from hitcurve_dashboards.rules.document import RUNBOOKS
from hitcurve_dashboards.rules.records import DEFAULT, Objective

__all__ = ["app"]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    epilog="Examples: 'hitcurve dashboards build --out deploy'; 'hitcurve dashboards push --url "
    "https://grafana.example --dry-run' needs GRAFANA_TOKEN.",
    help="Grafana dashboards and Prometheus rules: generate, verify, publish.",
)

Folder = Annotated[Path, typer.Option("--out", help="Folder with grafana/dashboards and prometheus/rules.")]
Runbooks = Annotated[str, typer.Option(help="Address of the folder with the runbook pages, for runbook_url.")]
Bound = Annotated[str, typer.Option(help="Seconds to the first token that the objective allows; a bucket bound.")]
Target = Annotated[float, typer.Option(min=0.5, max=0.99999, help="Share of requests that must keep the bound.")]


@app.command(
    short_help="Write the dashboards as JSON and the rules as YAML.",
    epilog="Example:  hitcurve dashboards build --out deploy --ttft-bound 1.0 --ttft-target 0.95",
)
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


@app.command(
    short_help="Look for what is wrong in dashboards and rules.",
    epilog="Example:  hitcurve dashboards check --prometheus http://127.0.0.1:9090 --rate-interval 1m",
)
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
        findings += check_queries(base_address(prometheus), rate_interval)
    if as_json:
        print(json.dumps(asdict(findings), indent=2))
    else:
        _tell(findings)
    if findings.problems:
        many = len(findings.problems)
        raise BadFinding(f"{many} problem{'' if many == 1 else 's'} in dashboards or rules.")


Address = Annotated[str, typer.Option("--url", envvar="GRAFANA_URL", help="Address of the Grafana.")]


@app.command(
    short_help="Send the dashboards to a Grafana.",
    epilog="Example:  GRAFANA_TOKEN=glsa_… hitcurve dashboards push --url https://grafana.example --dry-run",
)
def push(
    url: Address,
    folder: Annotated[
        str, typer.Option(help="Folder that holds the dashboards; made where missing.")
    ] = "hitcurve",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace dashboards that differ.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")] = False,
) -> None:
    """Send the dashboards to a Grafana. Without --overwrite, one that differs is shown, kept, and ends it with 1.

    The token of a service account is read from GRAFANA_TOKEN.
    """
    kept = []
    target = (folder.lower().replace(" ", "-"), folder)
    for change in push_all(_grafana(url), DASHBOARDS, target, overwrite=overwrite, dry_run=dry_run):
        print(f"{change.uid}: {change.action}")
        if change.diff:
            print(change.diff)
        if change.action == "differs":
            kept.append(change.uid)
    if kept:
        raise BadFinding(f"{', '.join(kept)} differ in Grafana and were kept; --overwrite replaces them.")


@app.command(
    short_help="Mark the faults of a chaos run on the time axis.",
    epilog="Example:  GRAFANA_TOKEN=glsa_… hitcurve dashboards annotate runs/tonight --url http://grafana:3000",
)
def annotate(
    run: Annotated[Path, typer.Argument(help="Run folder of chaos.", metavar="DIR")], url: Address
) -> None:
    """Mark the faults of a chaos run on the time axis of every dashboard; marks that exist are left alone."""
    marked, before = annotate_run(_grafana(url), run)
    print(f"{marked} faults marked, {before} were marked before")


def _grafana(url: str) -> Grafana:
    token = os.environ.get("GRAFANA_TOKEN", "")
    if not token:
        raise UsageError(
            "GRAFANA_TOKEN is not set; put the token of a Grafana service account with role Editor in it."
        )
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise UsageError(f"--url must begin with http:// or https://; got '{url}'.")
    return Grafana(url, token)


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
    """The bound as vLLM's page spells it; a rule on another one would never find a bucket."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if seconds not in FIRST_TOKEN_BOUNDS:
        listed = ", ".join(f"{bound:g}" for bound in FIRST_TOKEN_BOUNDS)
        raise UsageError(
            f"--ttft-bound must be a bucket bound of vllm:time_to_first_token_seconds, in seconds: {listed}; "
            f"got '{text}'."
        )
    return repr(seconds)
