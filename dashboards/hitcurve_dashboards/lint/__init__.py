"""Finds what is wrong with dashboards and rules before anybody looks at an empty panel."""
