"""Prometheus recording and alerting rules, as records; ``document`` writes the YAML files."""
