"""Grafana dashboards, Prometheus rules and their provisioning."""
