"""KV bytes per token of well-known models, and pools as a share of the GPUs' memory."""

import json
from pathlib import Path
from typing import Any

import pytest

from hitcurve.errors import UsageError
from hitcurve_simulator.estimate.model_memory import kv_memory
from hitcurve_simulator.estimate.pool_sizes import gpu_memory, pool_sizes

LLAMA_8B = {
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "torch_dtype": "bfloat16",
}
DEEPSEEK_V3 = {
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "hidden_size": 7168,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "torch_dtype": "bfloat16",
}
MISTRAL_7B = {**LLAMA_8B, "sliding_window": 4096}
GPT_OSS_20B = {
    "num_hidden_layers": 24,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "hidden_size": 2880,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "torch_dtype": "bfloat16",
}
GEMMA_3_27B = {
    "text_config": {
        "num_hidden_layers": 62,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "head_dim": 128,
        "hidden_size": 5376,
        "sliding_window": 1024,
        "sliding_window_pattern": 6,
    },
    "torch_dtype": "bfloat16",
}
JAMBA_MINI = {**LLAMA_8B, "attn_layer_period": 8, "attn_layer_offset": 4}
QWEN3_NEXT = {**LLAMA_8B, "num_hidden_layers": 48, "full_attention_interval": 4}
NEMOTRON_H = {**LLAMA_8B, "num_hidden_layers": 6, "hybrid_override_pattern": "M-M*-M"}
QWEN2_WINDOWED = {**LLAMA_8B, "sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 28}


def written(folder: Path, config: dict[str, Any]) -> Path:
    file = folder / "config.json"
    file.write_text(json.dumps(config))
    return file


@pytest.mark.parametrize(
    ("config", "kib", "note"),
    [
        (LLAMA_8B, 128, None),
        (DEEPSEEK_V3, 68.625, None),
        (MISTRAL_7B, 128, "every layer keeps a window of 4,096 tokens only"),
        ({**MISTRAL_7B, "use_sliding_window": False}, 128, None),
        (GPT_OSS_20B, 24, "12 of 24 layers keep a window only and are not counted; they take up to 3.0 MiB"),
        (GEMMA_3_27B, 2 * 10 * 16 * 128 * 2 / 1024, "52 of 62 layers keep a window only"),
        (JAMBA_MINI, 16, "28 of 32 layers keep a state of fixed size"),
        (QWEN3_NEXT, 48, "36 of 48 layers keep a state of fixed size"),
        (NEMOTRON_H, 4, "3 of 4 layers keep a state of fixed size"),
        (QWEN2_WINDOWED, 112, "4 of 32 layers keep a window only"),
    ],
)
def test_bytes_a_token_and_what_they_leave_out(
    tmp_path: Path, config: dict[str, Any], kib: float, note: str | None
) -> None:
    memory = kv_memory(written(tmp_path, config))
    assert memory.bytes_per_token == kib * 1024
    assert len(memory.notes) == (note is not None)
    assert note is None or memory.notes[0].startswith(note)


def test_every_gpu_holds_a_head_and_the_whole_latent(tmp_path: Path) -> None:
    llama = written(tmp_path, LLAMA_8B)
    assert [kv_memory(llama, gpus=gpus).bytes_per_token // 1024 for gpus in (1, 2, 8, 16)] == [128, 128, 128, 256]
    deepseek = kv_memory(written(tmp_path, DEEPSEEK_V3), "fp8", gpus=8)
    assert deepseek.bytes_per_token == 61 * 576 * 8
    assert "8 GPUs, each with the whole latent" in deepseek.formula


def test_a_pool_is_what_weights_leave_of_the_memory(tmp_path: Path) -> None:
    memory = kv_memory(written(tmp_path, LLAMA_8B))
    gpu = gpu_memory("80GiB", "15 GiB", 0.9, None, 1)
    assert gpu is not None
    assert gpu.pool_gib == pytest.approx(57)
    # 57 GiB / 128 KiB = 466,944 tokens.
    assert pool_sizes([7], [1.0], gpu, memory, 16) == (7, 512, 466_944 // 16)
    two = gpu_memory("24", "16GiB", None, "2048MiB", 2)
    assert two is not None
    assert two.pool_gib == pytest.approx(2 * 24 * 0.9 - 16 - 2)
    assert gpu_memory(None, None, None, None, 1) is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("80GiB", None, None, None, 1), "^--gpu-memory alone says no pool: give --weights SIZE .of all GPUs"),
        (
            (None, "15GiB", None, None, 1),
            "^--weights alone says no pool: give --gpu-memory SIZE .of one",
        ),
        ((None, None, 0.9, None, 1), "^--gpu-memory-utilization alone .* --gpu-memory SIZE .* and --weights SIZE"),
        ((None, None, None, "1GiB", 1), "^--other-memory alone says no pool"),
        (("much", "1GiB", None, None, 1), "--gpu-memory is 'much'; give a size such as 80GiB"),
        (("10GiB", "15GiB", 0.9, None, 1), "leaves nothing beside 15 GiB of weights"),
    ],
)
def test_what_leaves_no_pool_is_one_sentence(tmp_path: Path, options: Any, sentence: str) -> None:
    memory = kv_memory(written(tmp_path, LLAMA_8B))
    with pytest.raises(UsageError, match=sentence):
        pool_sizes([], [], gpu_memory(*options), memory, 16)


def test_a_model_without_attention_keeps_no_blocks(tmp_path: Path) -> None:
    config = {**LLAMA_8B, "layer_types": ["mamba"] * 4}
    with pytest.raises(UsageError, match="no attention layer"):
        kv_memory(written(tmp_path, config))
