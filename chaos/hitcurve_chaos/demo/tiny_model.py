"""A tiny random Llama with a byte-level tokenizer and LoRA adapters, made on the spot.

Run as a file by the Python of the vLLM environment (``python tiny_model.py FOLDER``): it needs torch,
transformers, tokenizers and safetensors, which only that environment has. Nothing is downloaded.

One byte of text is one token, so a prompt's length in tokens is its length in bytes. The output layer answers only
printable ASCII, so that a reply that is sent back in the next turn becomes the same tokens again.
"""

import json
import sys
from pathlib import Path
from typing import Any

__all__ = ["ADAPTERS", "CHAT_TEMPLATE"]

ADAPTERS = ("alpha", "beta", "gamma", "delta")
HIDDEN, LAYERS, HEADS, KV_HEADS, RANK = 128, 2, 4, 2, 8
POSITIONS = 8192
SPECIAL_TOKENS = ("<bos>", "<eos>", "<pad>")
CHAT_TEMPLATE = (
    "{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def main(folder: Path) -> None:
    """Write the model to ``folder/model`` and the adapters to ``folder/adapters/NAME``."""
    vocabulary = _write_tokenizer(folder / "model")
    _write_model(folder / "model", vocabulary)
    for seed, name in enumerate(ADAPTERS, start=1):
        _write_adapter(folder / "adapters" / name, seed)


def _write_tokenizer(folder: Path) -> dict[str, int]:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: index for index, symbol in enumerate(alphabet)}
    vocabulary.update({token: len(alphabet) + index for index, token in enumerate(SPECIAL_TOKENS)})
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    bos, eos, pad = SPECIAL_TOKENS
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=bos, eos_token=eos, pad_token=pad)
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)
    return vocabulary


def _write_model(folder: Path, vocabulary: dict[str, int]) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=POSITIONS,
        bos_token_id=vocabulary["<bos>"],
        eos_token_id=vocabulary["<eos>"],
        pad_token_id=vocabulary["<pad>"],
        tie_word_embeddings=False,
        dtype="bfloat16",
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    printable = {chr(code) for code in range(33, 127)}
    silent = [index for symbol, index in vocabulary.items() if symbol not in printable]
    with torch.no_grad():
        model.lm_head.weight[silent] = 0
    model.save_pretrained(folder)


def _write_adapter(folder: Path, seed: int) -> None:
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(seed)
    head = HIDDEN // HEADS
    widths = {"q_proj": HIDDEN, "v_proj": KV_HEADS * head}
    weights: dict[str, Any] = {}
    for layer in range(LAYERS):
        for projection, width in widths.items():
            name = f"base_model.model.model.layers.{layer}.self_attn.{projection}"
            weights[f"{name}.lora_A.weight"] = 0.2 * torch.randn(RANK, HIDDEN, generator=generator)
            weights[f"{name}.lora_B.weight"] = 0.2 * torch.randn(width, RANK, generator=generator)
    save_file(weights, folder / "adapter_model.safetensors")
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": RANK,
        "lora_alpha": RANK,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(widths),
    }
    (folder / "adapter_config.json").write_text(json.dumps(settings, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
