"""The cache rules of TensorRT-LLM: a tree of full blocks, evicted by retention priority, then by last use.

Followed from the source; unlike the other rules they were not compared with the engine itself.
"""

from hitcurve_simulator.trtllm.block_tree import DEFAULT_PRIORITY, BlockTree
from hitcurve_simulator.trtllm.manager import BlockReuse
from hitcurve_simulator.trtllm.retention import Retention, TokenRange

__all__ = ["DEFAULT_PRIORITY", "BlockReuse", "BlockTree", "Retention", "TokenRange"]
