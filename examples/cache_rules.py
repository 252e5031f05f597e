"""The cache rules of an engine version, from Python: no engine, no server.

python examples/cache_rules.py
"""

from hitcurve_simulator.vllm import CacheManager, Request, rules_of_version

BLOCK_SIZE = 16
POOL_BLOCKS = 12
SYSTEM_PROMPT = list(range(100, 164))
"""64 tokens that all requests share: four blocks."""


def ask(manager: CacheManager, name: str, prompt: list[int], adapter: str | None = None) -> int:
    """Serve one request from its lookup to its end; the tokens that were found."""
    state = manager.track(Request(name, prompt, adapter=adapter))
    found = manager.lookup(state)
    hit_tokens = len(found) * BLOCK_SIZE
    if not manager.allocate(state, len(prompt) - hit_tokens, found):
        raise SystemExit(f"{name} does not fit in the pool")
    manager.free(state)
    print(f"{name:<34} {hit_tokens:>3} of {len(prompt):>3} tokens from the cache")
    return hit_tokens


def main() -> None:
    """Six requests, each with another reason to hit or to miss."""
    # The pool of vLLM holds one block more, which no request gets.
    manager = CacheManager(POOL_BLOCKS + 1, BLOCK_SIZE, rules_of_version("0.32.0"))
    ask(manager, "first sight", [*SYSTEM_PROMPT, 1, 2, 3])
    ask(manager, "same prefix, another question", [*SYSTEM_PROMPT, 4, 5, 6])
    ask(manager, "exactly the prefix", SYSTEM_PROMPT)
    ask(manager, "the same under another adapter", SYSTEM_PROMPT, adapter="french")
    ask(manager, "a long prompt that fills the pool", list(range(1000, 1000 + POOL_BLOCKS * BLOCK_SIZE)))
    ask(manager, "the prefix once more", [*SYSTEM_PROMPT, 7, 8, 9])


if __name__ == "__main__":
    main()
