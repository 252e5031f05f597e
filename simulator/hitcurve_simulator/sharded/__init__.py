"""The estimate in parallel shards that are merged exactly: here or on the machines of a Ray cluster."""
