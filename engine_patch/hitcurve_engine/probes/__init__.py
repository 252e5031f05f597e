"""The hooks: wrappers around vLLM's cache manager and block pool that only append small tuples to a queue."""
