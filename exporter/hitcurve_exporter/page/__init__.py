"""What the exporter's own /metrics page says, built from the newest readings."""
