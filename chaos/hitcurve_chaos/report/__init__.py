"""The HTML report of a run folder: one file, no network."""

from hitcurve_chaos.report.page import REPORT_FILE, write_report

__all__ = ["REPORT_FILE", "write_report"]
