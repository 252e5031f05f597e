"""Synthetic workloads with known answers."""

from hitcurve_simulator.workloads.article import CONCURRENCY, WORKLOADS, Workload, workload_rows

__all__ = ["CONCURRENCY", "WORKLOADS", "Workload", "workload_rows"]
