"""How many layers of a model keep every token, keep a window of them, or keep a state of fixed size."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["AttentionLayers", "attention_layers"]

_FULL: Final = ("full_attention", "attention", "hybrid", "deepseek_sparse_attention")
_WINDOWED: Final = ("sliding_attention", "chunked_attention")


@dataclass(frozen=True, slots=True)
class AttentionLayers:
    """Counts of layers. ``window`` is that of the windowed ones in tokens, None where it is not said."""

    full: int
    windowed: int = 0
    fixed: int = 0
    window: int | None = None

    @property
    def all(self) -> int:
        return self.full + self.windowed + self.fixed


def attention_layers(config: Mapping[str, Any], layers: int) -> AttentionLayers:
    """Read the ways in which ``config.json`` files of transformers (5.0) tell layers apart.

    Lists by layer (``layer_types``, ``layers_block_type``), a pattern of letters (``hybrid_override_pattern``:
    ``*`` is attention, ``M`` Mamba), every n-th layer (``full_attention_interval``, ``attn_layer_period``,
    ``sliding_window_pattern``), or one window for all (``sliding_window``, unless ``use_sliding_window`` is off).
    """
    window = _whole(config.get("sliding_window")) or _whole(config.get("attention_chunk_size"))
    for name in ("layer_types", "layers_block_type"):
        kinds = config.get(name)
        if isinstance(kinds, list) and kinds:
            full = sum(kind in _FULL for kind in kinds)
            windowed = sum(kind in _WINDOWED for kind in kinds)
            return AttentionLayers(full, windowed, len(kinds) - full - windowed, window)
    pattern = config.get("hybrid_override_pattern")
    if isinstance(pattern, str) and "*" in pattern:
        return AttentionLayers(pattern.count("*"), fixed=pattern.count("M"))
    every = _whole(config.get("full_attention_interval")) or _whole(config.get("attn_layer_period"))
    if every:
        offset = config.get("attn_layer_offset")
        first = offset if isinstance(offset, int) else every - 1
        full = len(range(first, layers, every))
        return AttentionLayers(full, fixed=layers - full)
    if window is None or config.get("use_sliding_window") is False:
        return AttentionLayers(layers)
    every = _whole(config.get("sliding_window_pattern"))
    if every:
        full = layers // every
        return AttentionLayers(full, layers - full, window=window)
    full = min(_whole(config.get("max_window_layers")) or 0, layers)
    return AttentionLayers(full, layers - full, window=window)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
