"""The vLLM plugin. Depends on nothing that vLLM does not already ship."""
