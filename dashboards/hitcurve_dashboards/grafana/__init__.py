"""A small builder of Grafana's classic dashboard JSON: plain records in, one document out."""
