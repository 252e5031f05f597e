"""The exporter's HTTP side: metrics, landing page, API, health, reload."""
