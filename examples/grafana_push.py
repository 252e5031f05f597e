"""A dashboard of your own: made of hitcurve's records, checked by its lint, pushed to a Grafana.

GRAFANA_TOKEN=… python examples/grafana_push.py https://grafana.example    # a service account, role Editor
"""

import os
import sys

from hitcurve_dashboards.boards.shared import CUTS, ENGINE, EXPORTER_VARIABLES, ratio
from hitcurve_dashboards.grafana.document import as_document
from hitcurve_dashboards.grafana.records import Dashboard, Panel, Query, Row
from hitcurve_dashboards.lint.dashboards import dashboard_problems
from hitcurve_dashboards.names import known_metrics
from hitcurve_dashboards.publish.grafana import Grafana
from hitcurve_dashboards.publish.push import push

HIT_RATE = ratio("hitcurve_hit_tokens_total", "hitcurve_query_tokens_total", ENGINE, "model_name")

WALL = Dashboard(
    uid="team-hit-rate-wall",
    title="Team / Hit rate on the wall",
    description="One figure a model, readable from the other end of the room.",
    variables=EXPORTER_VARIABLES,
    rows=(
        Row(
            "Now",
            (
                Panel(
                    "Hit rate by model",
                    "stat",
                    "How much of what is asked for does each model find in its caches?",
                    (Query(HIT_RATE, "{{model_name}}", instant=True),),
                    unit="percentunit",
                    width=24,
                    height=12,
                ),
            ),
        ),
    ),
    annotations=CUTS,
)


def main(arguments: list[str]) -> int:
    """Check, then push; what somebody changed in Grafana is shown and kept."""
    problems = list(dashboard_problems(as_document(WALL), known_metrics()))
    if problems:
        print(*problems, sep="\n", file=sys.stderr)
        return 1
    grafana = Grafana(arguments[0], os.environ["GRAFANA_TOKEN"])
    differs = False
    for change in push(grafana, [WALL], ("team", "Team"), overwrite=False, dry_run=False):
        print(f"{change.uid}: {change.action}", change.diff, sep="\n" if change.diff else "")
        differs = differs or change.action == "differs"
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
