"""Running all checks over what was seen, and the verdict."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from hitcurve.doctor.checks import CHECKS
from hitcurve.doctor.findings import Check, Finding, Fleet, NotJudged, Severity

__all__ = ["Answer", "Diagnosis", "Verdict", "as_document", "diagnose"]

Verdict = Literal["ok", "bad", "no_data"]

_ORDER: Final[dict[Severity, int]] = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True, slots=True)
class Answer:
    """What one check said."""

    check: Check
    findings: tuple[Finding, ...]
    not_judged: tuple[NotJudged, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All answers, in the order of the checks, and the replicas they are about."""

    replicas: tuple[str, ...]
    answers: tuple[Answer, ...]

    @property
    def findings(self) -> list[tuple[Check, Finding]]:
        """Errors first, then warnings, then notes."""
        found = [(answer.check, finding) for answer in self.answers for finding in answer.findings]
        return sorted(found, key=lambda pair: _ORDER[pair[1].severity])

    @property
    def verdict(self) -> Verdict:
        """``bad`` with any error or warning; ``no_data`` where something essential could not be judged."""
        if any(finding.severity != "note" for _, finding in self.findings):
            return "bad"
        missing = any(one.essential for answer in self.answers for one in answer.not_judged)
        return "no_data" if missing else "ok"


def diagnose(fleet: Fleet, checks: Sequence[Check] = CHECKS) -> Diagnosis:
    """Ask every check once about the same scrape.

    What holds alike for several replicas is said once, with the evidence that holds for all of them.
    """
    return Diagnosis(
        tuple(replica.name for replica in fleet.replicas), tuple(_ask(check, fleet) for check in checks)
    )


def _ask(check: Check, fleet: Fleet) -> Answer:
    said = list(check.judge(fleet))
    if not said and not any(fleet.engines()):
        said = [NotJudged((), "a page that can be read")]
    findings: dict[tuple[str, str], Finding] = {}
    missing: dict[str, NotJudged] = {}
    for one in said:
        if isinstance(one, Finding):
            alike = findings.setdefault((one.message, one.cure), one)
            findings[one.message, one.cure] = replace(
                alike,
                where=tuple(dict.fromkeys(alike.where + one.where)),
                evidence={
                    name: value for name, value in alike.evidence.items() if one.evidence.get(name) == value
                },
            )
        else:
            like = missing.setdefault(one.missing, one)
            missing[one.missing] = replace(like, where=tuple(dict.fromkeys(like.where + one.where)))
    return Answer(check, tuple(findings.values()), tuple(missing.values()))


def as_document(diagnosis: Diagnosis) -> dict[str, Any]:
    """The diagnosis as JSON values. ``version`` counts up when a key changes its meaning or goes."""
    return {
        "version": 1,
        "verdict": diagnosis.verdict,
        "replicas": list(diagnosis.replicas),
        "checks": [
            {
                "id": answer.check.id,
                "asks": answer.check.asks,
                "page": answer.check.page,
                "findings": [
                    {
                        "severity": finding.severity,
                        "where": list(finding.where),
                        "message": finding.message,
                        "cure": finding.cure,
                        "evidence": dict(finding.evidence),
                    }
                    for finding in answer.findings
                ],
                "not_judged": [{"where": list(one.where), "missing": one.missing} for one in answer.not_judged],
            }
            for answer in diagnosis.answers
        ],
    }
