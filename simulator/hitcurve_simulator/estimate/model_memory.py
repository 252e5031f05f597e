"""Bytes of KV cache per token from a model's ``config.json``, so that a pool can be given in GiB."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hitcurve.errors import UsageError
from hitcurve_simulator.estimate.attention_layers import AttentionLayers, attention_layers

__all__ = ["GIB", "KV_TYPES", "KvMemory", "kv_memory"]

GIB: Final = 1024**3
KV_TYPES: Final = {"float32": 4, "bfloat16": 2, "float16": 2, "fp8": 1}


@dataclass(frozen=True, slots=True)
class KvMemory:
    """``bytes_per_token`` over all layers that keep every token, on all GPUs together; ``formula`` says how."""

    bytes_per_token: int
    formula: str
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """What ``hitcurve estimate --json`` says of it."""
        return {"kv_bytes_per_token": self.bytes_per_token, "formula": self.formula, "notes": list(self.notes)}

    def blocks_in(self, gib: float, block_size: int) -> int:
        """Whole blocks that fit."""
        return int(gib * GIB // (self.bytes_per_token * block_size))

    def gib_of(self, blocks: int, block_size: int) -> float:
        """Size of a pool in GiB."""
        return blocks * block_size * self.bytes_per_token / GIB


def kv_memory(path: Path, kv_type: str | None = None, gpus: int = 1) -> KvMemory:
    """Read a ``config.json`` (or the folder that holds it). ``kv_type`` overrides the model's type.

    Counts 2 (K and V) x layers x KV heads x head size x bytes; with multi-head latent attention
    (``kv_lora_rank``) layers x (latent + rope) x bytes. With tensor parallelism over ``gpus`` each GPU holds at
    least one KV head, and the whole latent. Layers of bounded or constant state (sliding window, Mamba) are not
    counted where others keep every token, and a note says what they add. Raises UsageError where the file is
    unreadable or a number is missing.
    """
    config = _text_config(_read(path))
    layers = attention_layers(config, _number(config, path, "num_hidden_layers", "n_layer", "num_layers"))
    name, width = _element(config, path, kv_type)
    counted = layers.full or layers.windowed
    if not counted:
        raise UsageError(f"{path} has no attention layer that keeps tokens; nothing of it is cached by blocks.")
    latent = config.get("kv_lora_rank")
    if isinstance(latent, int):
        rope = _number(config, path, "qk_rope_head_dim")
        each = (latent + rope) * width * gpus
        formula = f"{counted} layers x ({latent} latent + {rope} rope) x {width} bytes ({name})"
        if gpus > 1:
            formula += f" x {gpus} GPUs, each with the whole latent"
        return KvMemory(counted * each, formula, _notes(layers, each))
    heads = _number(config, path, "num_attention_heads", "n_head")
    kv_heads = int(1 if config.get("multi_query") is True else config.get("num_key_value_heads") or heads)
    held = max(kv_heads, gpus)
    size = int(config.get("head_dim") or _number(config, path, "hidden_size", "n_embd") // heads)
    formula = f"2 x {counted} layers x {held} KV heads x {size} x {width} bytes ({name})"
    if held > kv_heads:
        formula += f"; the model has {kv_heads} and each of {gpus} GPUs holds one"
    return KvMemory(2 * counted * held * size * width, formula, _notes(layers, 2 * held * size * width))


def _notes(layers: AttentionLayers, layer_bytes: int) -> tuple[str, ...]:
    """What the formula leaves out; ``layer_bytes``: of a token in one layer."""
    notes = []
    if layers.windowed and not layers.full:
        window = "a window" if layers.window is None else f"a window of {layers.window:,} tokens"
        notes.append(
            f"every layer keeps {window} only: blocks behind it are given up early, so that more requests fit "
            "than this counts, and long prompts may lose their prefix"
        )
    elif layers.windowed:
        more = ""
        if layers.window is not None:
            mib = layers.windowed * layers.window * layer_bytes / 1024**2
            more = f"; they take up to {mib:,.1f} MiB for each running request ({layers.window:,} tokens)"
        notes.append(
            f"{layers.windowed} of {layers.all} layers keep a window only and are not counted{more}, and a prefix "
            "is found only where its last window is still there"
        )
    if layers.fixed:
        notes.append(
            f"{layers.fixed} of {layers.all} layers keep a state of fixed size, which is not counted; what of it "
            "is cached depends on the engine"
        )
    return tuple(notes)


def _read(path: Path) -> Mapping[str, Any]:
    file = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}; give the model's config.json.") from None
    except ValueError as error:
        raise UsageError(f"{file} is not JSON: {error}; give the model's config.json.") from None
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
