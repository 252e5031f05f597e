"""The simulated engine as a server: OpenAI's API, /metrics and admin endpoints over the cache rules."""
