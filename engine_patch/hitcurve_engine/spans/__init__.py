"""OpenTelemetry spans: one per request, one for what its allocations evicted, one per reset."""
