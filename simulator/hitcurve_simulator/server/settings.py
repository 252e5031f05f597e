"""The settings of one simulated engine, checked."""

from dataclasses import dataclass, field

from hitcurve.errors import UsageError
from hitcurve_simulator.server.time_model import TimeModel
from hitcurve_simulator.vllm import DEFAULT_VERSION, VllmRules, rules_of_version

__all__ = ["EngineSettings"]

_OLD_PAGE = "0.8"
_NEW_PAGE_SINCE = (0, 12)
_RESET_REPLY_SINCE = (0, 26)
# Each block that was used once is remembered for good, at about half a kilobyte: this many are some gigabytes.
_MOST_BLOCKS = 10_000_000


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Options of ``hitcurve engine``, named as vLLM's where it has them.

    ``num_blocks`` counts the reserved null block, as ``--num-gpu-blocks-override`` does. Raises UsageError for
    settings that cannot work together.
    """

    model: str = "simulated"
    block_size: int = 16
    num_blocks: int = 4097
    max_num_seqs: int = 128
    max_num_batched_tokens: int = 2048
    max_model_len: int = 8192
    max_loras: int = 4
    """Adapters in one batch; 0: an engine without LoRA."""
    enable_prefix_caching: bool = True
    version: str = DEFAULT_VERSION
    dev_mode: bool = True
    patched: bool = False
    seed: int = 0
    reply_tokens: int = 256
    time: TimeModel = field(default_factory=TimeModel)
    fault: str = ""
    """Name of a planted defect (``hitcurve_simulator.server.faults``); empty: a healthy engine."""
    fault_peer: str = ""
    """Address of the other engine, for a defect that takes two."""

    def __post_init__(self) -> None:
        rules = self.rules
        if not self.old_metrics and _number(rules) < _NEW_PAGE_SINCE:
            raise UsageError(
                f"there is no /metrics page of vLLM {self.version} here; "
                f"--version takes 0.8.x or a version from 0.12 on, such as {DEFAULT_VERSION}."
            )
        if self.num_blocks - 1 > _MOST_BLOCKS:
            raise UsageError(
                f"a pool of {self.num_blocks - 1} blocks would not fit in memory once it is used; "
                f"--pool-blocks takes at most {_MOST_BLOCKS}."
            )
        needed = -(-self.max_model_len // self.block_size)
        if self.num_blocks - 1 < needed:
            raise UsageError(
                f"one request of --max-model-len {self.max_model_len} tokens needs {needed} blocks of "
                f"{self.block_size} and the pool has {self.num_blocks - 1} usable ones "
                f"(block 0 of {self.num_blocks} is reserved); "
                f"enlarge the pool or lower --max-model-len to {max(self.num_blocks - 1, 0) * self.block_size}."
            )

    @property
    def rules(self) -> VllmRules:
        """The cache rules of the version; UsageError where it is none."""
        try:
            return rules_of_version(self.version)
        except ValueError as error:
            raise UsageError(f"--version: {error}.") from None

    @property
    def old_metrics(self) -> bool:
        """Metric names and units of 0.8.5."""
        return self.version.startswith(f"{_OLD_PAGE}.")

    @property
    def reset_replies_json(self) -> bool:
        """Since 0.26 /reset_prefix_cache says whether it worked; before, its body is empty."""
        return _number(self.rules) >= _RESET_REPLY_SINCE


def _number(rules: VllmRules) -> tuple[int, int]:
    major, minor = rules.version.removeprefix("v").split(".")[:2]
    return int(major), int(minor)
