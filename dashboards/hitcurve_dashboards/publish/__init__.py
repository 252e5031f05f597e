"""Sends dashboards and chaos annotations to a Grafana."""
