"""Traffic: Locust users, profiles, trace replay, stream measurement."""
