"""Finding targets while the exporter runs: files and addresses in Prometheus' formats."""
