"""Bytes of KV cache per token from a model's ``config.json``, so that a pool can be given in GiB."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hitcurve.errors import UsageError

__all__ = ["GIB", "KV_TYPES", "KvMemory", "kv_memory"]

GIB: Final = 1024**3
KV_TYPES: Final = {"float32": 4, "bfloat16": 2, "float16": 2, "fp8": 1}
_BOUNDED_LAYERS = ("sliding_attention", "chunked_attention", "linear_attention", "mamba", "conv", "recurrent")


@dataclass(frozen=True, slots=True)
class KvMemory:
    """``bytes_per_token`` over all layers that keep every token, all GPUs together; ``formula`` says how."""

    bytes_per_token: int
    formula: str
    notes: tuple[str, ...] = ()

    def blocks_in(self, gib: float, block_size: int) -> int:
        """Whole blocks that fit."""
        return int(gib * GIB // (self.bytes_per_token * block_size))

    def gib_of(self, blocks: int, block_size: int) -> float:
        """Size of a pool in GiB."""
        return blocks * block_size * self.bytes_per_token / GIB


def kv_memory(path: Path, kv_type: str | None = None) -> KvMemory:
    """Read a ``config.json`` (or the folder that holds it). ``kv_type`` overrides the model's type.

    Counts 2 (K and V) x layers x KV heads x head size x bytes; with multi-head latent attention (``kv_lora_rank``)
    layers x (latent + rope) x bytes. Layers of bounded or constant state (sliding window, Mamba) are not counted,
    and a note says so. Raises UsageError where the file is unreadable or a number is missing.
    """
    config = _text_config(_read(path))
    layers = _number(config, path, "num_hidden_layers", "n_layer", "num_layers")
    kinds = config.get("layer_types")
    notes: tuple[str, ...] = ()
    if isinstance(kinds, list):
        bounded = sum(kind in _BOUNDED_LAYERS for kind in kinds)
        layers = len(kinds) - bounded
        if bounded:
            notes = (f"{bounded} of {len(kinds)} layers keep a bounded state and are not counted",)
    name, width = _element(config, path, kv_type)
    latent = config.get("kv_lora_rank")
    if isinstance(latent, int):
        rope = _number(config, path, "qk_rope_head_dim")
        formula = f"{layers} layers x ({latent} latent + {rope} rope) x {width} bytes ({name})"
        return KvMemory(layers * (latent + rope) * width, formula, notes)
    heads = _number(config, path, "num_attention_heads", "n_head")
    kv_heads = 1 if config.get("multi_query") is True else config.get("num_key_value_heads") or heads
    size = config.get("head_dim") or _number(config, path, "hidden_size", "n_embd") // heads
    formula = f"2 x {layers} layers x {kv_heads} KV heads x {size} x {width} bytes ({name})"
    return KvMemory(2 * layers * int(kv_heads) * int(size) * width, formula, notes)


def _read(path: Path) -> Mapping[str, Any]:
    file = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise UsageError(f"{file} is not JSON: {error}.") from None
    if not isinstance(config, Mapping):
        raise UsageError(f"{file} is no model configuration: it holds no JSON object.")
    return config


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = config.get("text_config")
    return {**config, **inner} if isinstance(inner, Mapping) else config


def _number(config: Mapping[str, Any], path: Path, *names: str) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    raise UsageError(f"{path} has no {' or '.join(names)}; give the config.json of a decoder model.")


def _element(config: Mapping[str, Any], path: Path, kv_type: str | None) -> tuple[str, int]:
    name = kv_type or str(config.get("torch_dtype") or config.get("dtype") or "").removeprefix("torch.")
    if name not in KV_TYPES:
        known = ", ".join(KV_TYPES)
        raise UsageError(f"the KV cache type of {path} is '{name}'; give --kv-type, one of {known}.")
    return name, KV_TYPES[name]
