"""The HTML report of a run folder: one file, no network."""

from hitcurve_chaos.report.page import write_report

__all__ = ["write_report"]
