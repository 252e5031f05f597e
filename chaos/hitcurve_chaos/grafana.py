"""Grafana annotations of a run's faults, shown by the dashboards under the tag ``hitcurve-chaos``."""

import os
from collections.abc import Sequence

from hitcurve.errors import EnvironmentFailed
from hitcurve_chaos.calls import NoAnswer, Transport
from hitcurve_chaos.verdict import Verdict

__all__ = ["TOKEN_VARIABLE", "annotate"]

TAG = "hitcurve-chaos"
TOKEN_VARIABLE = "GRAFANA_TOKEN"
_TIMEOUT_S = 10.0


def annotate(grafana: str, verdicts: Sequence[Verdict], transport: Transport) -> int:
    """Mark every fault from its begin to its end; how many. EnvironmentFailed where Grafana does not take one.

    The key of a service account is read from ``GRAFANA_TOKEN``.
    """
    token = os.environ.get(TOKEN_VARIABLE)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    marked = 0
    for verdict in verdicts:
        if verdict.fault_from_s is None or verdict.fault_to_s is None:
            continue
        body = {
            "time": round(verdict.fault_from_s * 1000),
            "timeEnd": round(verdict.fault_to_s * 1000),
            "tags": [TAG, verdict.scenario, f"verdict:{verdict.verdict}"],
            "text": f"{verdict.title}: {verdict.verdict}. {verdict.seen}",
        }
        url = f"{grafana.rstrip('/')}/api/annotations"
        try:
            answer = transport.send("POST", url, json_body=body, headers=headers, timeout_s=_TIMEOUT_S)
        except NoAnswer as error:
            raise EnvironmentFailed(f"Grafana does not answer ({error}); correct --grafana.") from error
        if answer.status != 200:
            raise EnvironmentFailed(
                f"Grafana refuses the annotation ({answer.said}); put a key that may write into {TOKEN_VARIABLE}."
            )
        marked += 1
    return marked
