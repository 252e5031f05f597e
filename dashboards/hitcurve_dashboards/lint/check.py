"""All checks together."""

from dataclasses import dataclass, field

from hitcurve_dashboards.boards import DASHBOARDS
from hitcurve_dashboards.grafana.document import as_document
from hitcurve_dashboards.lint.dashboards import all_panels, dashboard_problems, problems_between
from hitcurve_dashboards.lint.execute import HttpPrometheus, asked_by_dashboards, asked_by_rules, execute
from hitcurve_dashboards.lint.rules import recorded_names, rule_problems
from hitcurve_dashboards.lint.schema import schema_problems
from hitcurve_dashboards.names import known_metrics
from hitcurve_dashboards.rules.document import rule_groups

__all__ = ["Findings", "check_documents", "check_queries"]


@dataclass(frozen=True, slots=True)
class Findings:
    """What was looked at and what is wrong. ``empty`` are the queries without an answer that may have none."""

    problems: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    expressions: int = 0
    executed: int = 0

    def __add__(self, other: "Findings") -> "Findings":
        return Findings(
            self.problems + other.problems,
            self.empty + other.empty,
            self.expressions + other.expressions,
            self.executed + other.executed,
        )


def check_documents() -> Findings:
    """The dashboards and rules that would be built."""
    groups = rule_groups()
    known = known_metrics(recorded_names(groups))
    problems = rule_problems(groups, known)
    expressions = sum(len(group.rules) for group in groups)
    documents = [as_document(dashboard) for dashboard in DASHBOARDS]
    problems.extend(problems_between(documents))
    for document in documents:
        found = (*schema_problems(document), *dashboard_problems(document, known))
        problems.extend(f"{document['uid']}: {problem}" for problem in found)
        expressions += sum(len(panel.get("targets", [])) for panel in all_panels(document))
    return Findings(problems, expressions=expressions)


def check_queries(url: str, rate_interval: str) -> Findings:
    """Every query of every panel, variable, annotation and rule, asked of the Prometheus at ``url``."""
    prometheus = HttpPrometheus(url)
    queries = (*asked_by_dashboards(DASHBOARDS, rate_interval), *asked_by_rules(rule_groups()))
    answers = list(execute(prometheus, iter(queries)))
    return Findings(
        problems=[answer.problem for answer in answers if answer.problem],
        empty=[
            f"{answer.asked.place}: {answer.asked.may_be_empty}"
            for answer in answers
            if not answer.series and not answer.problem
        ],
        executed=len(answers),
    )
