"""What the demo runs: sizes and times for each kind of engine, chosen so that two cores see the whole curve.

The pool holds the shared prefixes about one and a half times: enough to be flat in peace, little enough to be
emptied by pressure. The number of groups over the request rate is how long a reset needs to warm up again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["SETTINGS", "DemoSettings"]


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """Sizes in tokens and blocks, times in seconds, rates in requests per second."""

    block_size: int
    pool_blocks: int
    rate: float
    groups: int
    prefix_tokens: int
    suffix_tokens: int
    output_tokens: int
    engine_options: tuple[str, ...] = ()
    """Further options of the engine's command."""
    scrape_interval_s: float = 1.0
    windows_s: tuple[float, ...] = (5.0, 30.0, 300.0)
    request_window: int = 1000
    scenarios: tuple[str, ...] = ("pool-pressure", "lora-churn", "reset-prefix-cache")
    parameters: Mapping[str, object] = field(default_factory=dict)
    """Settings of the scenarios, by name."""

    def load(self) -> dict[str, object]:
        """The background load, as the target file would name it."""
        return {
            "profile": "shared-system-prompt",
            "rate": self.rate,
            "groups": self.groups,
            "prefix_tokens": self.prefix_tokens,
            "suffix_tokens": self.suffix_tokens,
            "output_tokens": self.output_tokens,
            "zipf": 0.0,
        }


SETTINGS: Mapping[str, DemoSettings] = {
    "sim": DemoSettings(
        block_size=16,
        pool_blocks=7200,
        rate=40.0,
        groups=150,
        prefix_tokens=512,
        suffix_tokens=96,
        output_tokens=8,
        engine_options=("--prefill-us-per-token", "25", "--attention-ns-per-pair", "5", "--patched"),
        request_window=400,
        parameters={
            "baseline": 4.0,
            "baseline_within": 45.0,
            "hold": 14.0,
            "recover_within": 45.0,
            "max_lag": 1.0,
        },
    ),
    "vllm": DemoSettings(
        block_size=32,
        pool_blocks=500,
        rate=12.0,
        groups=16,
        prefix_tokens=640,
        suffix_tokens=100,
        output_tokens=4,
        request_window=200,
        parameters={
            "baseline": 4.0,
            "baseline_within": 60.0,
            "hold": 18.0,
            "recover_within": 60.0,
            "max_lag": 1.0,
            "refill": 1.6,
            "prompt_tokens": 1000,
            "rate": 18.0,
            "period": 2.5,
        },
    ),
}
