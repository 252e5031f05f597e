"""Our tab in Locust's web interface, filled by the same figures as our section of the report."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from flask import request
from locust.env import Environment
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from hitcurve_loadtests.locust_report import with_section
from hitcurve_loadtests.report_section import figure_rows

__all__ = ["add_tab"]

_KEY = "hitcurve"
_RESULTS = "/hitcurve/results"
_METRICS = "/hitcurve/metrics"


def add_tab(
    environment: Environment, results: Callable[[], Mapping[str, Any] | None], registry: CollectorRegistry
) -> None:
    """Add the tab, ``/hitcurve/results`` (JSON), ``/hitcurve/metrics`` (Prometheus), our section of the report.

    Locust reads ``extended_tabs``, ``extended_tables`` and ``extended_stats`` (Locust 2.47, its example
    extend_web_ui.py).
    """
    web_ui = environment.web_ui
    columns = [{"key": "measure", "title": "Measure"}, {"key": "value", "title": "Value"}]
    web_ui.template_args["extended_tabs"] = [{"title": "Hit rate and TTFT", "key": _KEY}]
    web_ui.template_args["extended_tables"] = [{"key": _KEY, "structure": columns}]

    @web_ui.app.route(_RESULTS)  # type: ignore[untyped-decorator]
    @web_ui.auth_required_if_enabled  # type: ignore[untyped-decorator]
    def hitcurve_results() -> Any:
        return json.dumps(results()), 200, {"Content-Type": "application/json"}

    @web_ui.app.route(_METRICS)  # type: ignore[untyped-decorator]
    @web_ui.auth_required_if_enabled  # type: ignore[untyped-decorator]
    def hitcurve_metrics() -> Any:
        return generate_latest(registry), 200, {"Content-Type": CONTENT_TYPE_PLAIN_0_0_4}

    @web_ui.app.after_request  # type: ignore[untyped-decorator]
    def extend(response: Any) -> Any:
        found = results()
        if found is None or response.status_code != 200:
            return response
        if request.path.endswith("/stats/requests"):
            figures = [{"measure": what, "value": value} for what, value in figure_rows(found)]
            stats = {**json.loads(response.get_data()), "extended_stats": [{"key": _KEY, "data": figures}]}
            response.set_data(json.dumps(stats))
        elif request.path.endswith("/stats/report"):
            response.set_data(with_section(response.get_data(as_text=True), found))
        return response
