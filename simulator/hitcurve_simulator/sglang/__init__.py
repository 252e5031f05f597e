"""The cache rules of SGLang: a radix tree over pages of tokens.

``RadixCache`` serves requests; ``RadixTree`` is the tree alone::

    cache = RadixCache(num_pages=1024, page_size=16)
    state = cache.track(Request("r1", prompt_token_ids=list(range(100))))
    cache.start(state, tokens=100)
    cache.checkpoint(state)
    cache.finish(state)
"""

from hitcurve_simulator.sglang.manager import RadixCache
from hitcurve_simulator.sglang.namespaces import Namespace, SharedNamespaces
from hitcurve_simulator.sglang.node import Node
from hitcurve_simulator.sglang.policies import POLICIES, Policy
from hitcurve_simulator.sglang.request import RadixRequest
from hitcurve_simulator.sglang.tree import Core, RadixTree

__all__ = [
    "POLICIES",
    "Core",
    "Namespace",
    "Node",
    "Policy",
    "RadixCache",
    "RadixRequest",
    "RadixTree",
    "SharedNamespaces",
]
