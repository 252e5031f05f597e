"""Dashboards and rules for a cluster: a kustomization with ConfigMaps, and one PrometheusRule.

The ConfigMaps carry the label that Grafana's dashboard sidecar looks for; the PrometheusRule is the kind of the
Prometheus Operator (monitoring.coreos.com/v1).
"""

from collections.abc import Iterable
from pathlib import PurePosixPath

from hitcurve_dashboards.rules.document import RUNBOOKS, as_values, written
from hitcurve_dashboards.rules.records import RuleGroup

__all__ = ["kustomization", "prometheus_rule"]


def kustomization(dashboards: Iterable[PurePosixPath], rule: PurePosixPath) -> str:
    """A ConfigMap for each dashboard file, named like it, and the rules; paths are relative to this file."""
    return written(
        {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [str(rule)],
            "generatorOptions": {
                "disableNameSuffixHash": True,
                "labels": {"grafana_dashboard": "1"},
                "annotations": {"grafana_folder": "hitcurve"},
            },
            "configMapGenerator": [{"name": path.stem, "files": [str(path)]} for path in dashboards],
        }
    )


def prometheus_rule(groups: Iterable[RuleGroup], runbooks: str = RUNBOOKS) -> str:
    """All groups as one object."""
    return written(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {"name": "hitcurve", "labels": {"app.kubernetes.io/name": "hitcurve"}},
            "spec": {"groups": [as_values(group, runbooks) for group in groups]},
        }
    )
