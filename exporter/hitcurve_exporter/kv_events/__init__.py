"""Following what engines publish about their blocks: KV events over ZeroMQ."""
