"""Which component answers which command.

The one place that names components, and only as text: nothing is imported until its command is called, so
``hitcurve --help`` is fast and works with any set of extras installed.
"""

from dataclasses import dataclass

__all__ = ["COMMANDS", "Command"]


@dataclass(frozen=True, slots=True)
class Command:
    """A command: the module whose ``app`` (a ``typer.Typer``) answers it, its extra, one line of help."""

    module: str
    extra: str
    help: str


COMMANDS: dict[str, Command] = {
    "demo": Command(
        "hitcurve_chaos.demo.command", "all", "The whole suite on this machine, ending in one HTML report."
    ),
    "engine": Command("hitcurve_simulator.server.command", "simulator", "A simulated engine with a real API."),
    "exporter": Command(
        "hitcurve_exporter.command", "exporter", "Scrape engines, expose hit rates and curve states."
    ),
    "replay": Command(
        "hitcurve.replay.command", "cli", "Recorded /metrics pages to intervals, windows and the curve."
    ),
    "watch": Command("hitcurve.watch.command", "watch", "Live curves of replicas in a terminal."),
    "doctor": Command("hitcurve.doctor.command", "cli", "What is misconfigured or cannot work, and the cure."),
    "load": Command("hitcurve_loadtests.entry", "loadtests", "A Locust run of a named profile or a trace."),
    "chaos": Command("hitcurve_chaos.command", "chaos", "Scenarios: hypothesis, fault, rollback, verdict."),
    "simulate": Command(
        "hitcurve_simulator.simulate.command", "simulator", "Cache rules on a workload or a trace."
    ),
    "dashboards": Command(
        "hitcurve_dashboards.command", "dashboards", "Dashboards and rules: generate, verify, publish."
    ),
    "estimate": Command(
        "hitcurve_simulator.estimate.command", "simulator", "Ceiling, and hit rate against pool size."
    ),
    "reconcile": Command(
        "hitcurve_simulator.reconcile.command", "simulator", "Ceiling, prediction and measurement on one row."
    ),
    "report": Command("hitcurve_chaos.report.command", "chaos", "Rebuild the HTML report of a run."),
}
