"""The cache rules of vLLM V1 for models with sliding windows, or with several kinds of attention ("hybrid").

Layers of one kind form a group, and every group has blocks of its own in the one pool. A prefix can be reused only
where every group still has what its attention needs::

    groups = [FullAttention(block_size=32), SlidingWindow(block_size=16, window=128)]
    manager = GroupedCacheManager(num_blocks=1025, groups=groups, rules=rules_of_version("0.32.0"))
    manager.block_size      # 32: hits are multiples of it, the minimum reusable prefix
"""

from hitcurve_simulator.vllm_groups.attention import Attention, FullAttention, SlidingWindow, read_groups
from hitcurve_simulator.vllm_groups.longest_common_hit import Hit
from hitcurve_simulator.vllm_groups.manager import GroupedCacheManager

__all__ = ["Attention", "FullAttention", "GroupedCacheManager", "Hit", "SlidingWindow", "read_groups"]
