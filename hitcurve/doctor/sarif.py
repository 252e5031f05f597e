"""A diagnosis as SARIF 2.1.0, which code-scanning views of pipelines read (OASIS, sarif-v2.1.0)."""

from typing import Any, Final

from hitcurve import __version__
from hitcurve.doctor.diagnosis import Diagnosis

__all__ = ["as_sarif"]

_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def as_sarif(diagnosis: Diagnosis) -> dict[str, Any]:
    """One run; a rule per check, a result per finding; replicas are logical locations."""
    rules = [
        {
            "id": answer.check.id,
            "shortDescription": {"text": answer.check.asks},
            "help": {"text": f"See {answer.check.page}."},
        }
        for answer in diagnosis.answers
    ]
    results = [
        {
            "ruleId": check.id,
            "level": finding.severity,
            "message": {"text": f"{', '.join(finding.where) or 'Prometheus'}: {finding.message}. {finding.cure}."},
            "locations": [
                {"logicalLocations": [{"name": where, "kind": "resource"}]}
                for where in finding.where or ("Prometheus",)
            ],
            "properties": dict(finding.evidence),
        }
        for check, finding in diagnosis.findings
    ]
    driver = {"name": "hitcurve doctor", "semanticVersion": __version__, "rules": rules}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
