"""Engines with one planted defect each, so that whoever tests caches can test the tests."""

from hitcurve_simulator.server.faults.catalogue import FAULTS, HEALTHY, Fault, find_fault

__all__ = ["FAULTS", "HEALTHY", "Fault", "find_fault"]
