"""The cache rules of vLLM V0 (0.8.5): a block manager that shares equal content and evicts by last access.

``BlockManager`` serves requests; ``BlockPool`` hands out blocks.
"""

from hitcurve_simulator.vllm_v0.block_pool import BlockPool
from hitcurve_simulator.vllm_v0.manager import BlockManager

__all__ = ["BlockManager", "BlockPool"]
