"""Play a fixed list of requests against an engine and note what a client can tell apart.

``python play_exchanges.py URL OUT ADAPTER_A ADAPTER_B`` writes one JSON object: for each request its status, the
shape of the answer (field names and types), error type and parameter, usage, and by how much each counter of
/metrics rose. ``vllm_0_32_0.json`` beside this file is what a real vLLM 0.32.0 gave (CPU build, the tiny model of
``chaos/hitcurve_chaos/demo/tiny_model.py``); the simulated engine has to give the same. Both start fresh, with
``--block-size 32 --num-gpu-blocks-override 129 --max-model-len 4096 --max-num-seqs 16 --max-loras 2``, and call
the model ``tiny``. The real one also needs ``--enforce-eager --enable-prompt-tokens-details --enable-lora
--max-lora-rank 8`` and the environment variables of ``chaos/hitcurve_chaos/demo/engines.py``.
"""

import json
import sys
import threading
from pathlib import Path

from exchange_notes import COMPLETIONS, RESET, Player, difference, families

LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
USER = [{"role": "user", "content": "hello there"}]


def text(seed: str, length: int) -> str:
    """Printable text without repetition at block borders: blocks of different seeds never agree."""
    return "".join(f"{seed}{number:05d} " for number in range(length))[:length]


def play(player: Player, adapter_a: str, adapter_b: str) -> None:
    """All exchanges, in order; later ones rely on what earlier ones left in the cache."""
    play_lookups(player)
    play_completions(player)
    play_refusals(player)
    play_chats(player)
    play_adapters(player, adapter_a, adapter_b)
    play_resets(player)
    play_running(player)
    play_pressure(player)


def play_lookups(player: Player) -> None:
    complete, ids = player.complete, lambda value, count: [value] * count
    complete("100 tokens", prompt=text("a", 100))
    complete("100 tokens again", prompt=text("a", 100))
    complete("100 shared and 60 new", prompt=text("a", 100) + text("b", 60))
    for length in (20, 32, 33, 128, 129):
        complete(f"{length} tokens", prompt=text(f"c{length}", length))
        complete(f"{length} tokens again", prompt=text(f"c{length}", length))
    complete("token ids", prompt=ids(65, 40))
    complete("token ids again", prompt=ids(65, 40))
    complete("prompt_logprobs", prompt=text("d", 200), prompt_logprobs=1)
    complete("plain after prompt_logprobs", prompt=text("d", 200))
    complete("prompt_logprobs 0 after", prompt=text("d", 200), prompt_logprobs=0)
    for name, salt in (("A", "A"), ("A again", "A"), ("B", "B"), ("none", None)):
        complete(f"salt {name}", prompt=text("e", 100), cache_salt=salt)
    complete("n=4", prompt=text("f", 200), n=4)
    complete("n=4 again", prompt=text("f", 200), n=4)
    complete("two equal prompts", prompt=[text("g", 200)] * 2)
    complete("two equal prompts again", prompt=[text("g", 200)] * 2)
    complete("two prompts, n=2", prompt=[text("h", 70), text("i", 40)], n=2)
    complete("two lists of ids", prompt=[ids(65, 40), ids(66, 70)])


def play_completions(player: Player) -> None:
    complete, prompt, usage = player.complete, text("j", 70), {"include_usage": True}
    complete("streamed", prompt=prompt, stream=True)
    complete("streamed with usage", prompt=prompt, stream=True, stream_options=usage)
    complete(
        "streamed with usage in each chunk",
        prompt=prompt,
        stream=True,
        stream_options={**usage, "continuous_usage_stats": True},
    )
    complete("streamed n=3", prompt=text("k", 70), stream=True, n=3, stream_options=usage)
    complete("streamed two prompts", prompt=[text("v", 70), text("w", 40)], stream=True, stream_options=usage)
    complete("echo", prompt=prompt, echo=True)
    complete("echo streamed", prompt=prompt, echo=True, stream=True)
    complete("stop string that never comes", prompt=prompt, stop="\u0000\u0001\u0002")
    complete("token ids wanted", prompt=prompt, return_token_ids=True, request_id="mine")
    complete("unknown field", prompt=prompt, colour="blue")
    complete("no max_tokens", prompt=prompt, max_tokens=None)
    complete("longest sequence", prompt=text("l", 4090), max_tokens=30)
    player.call("no model", "POST", COMPLETIONS, {"prompt": prompt, "max_tokens": 1})


def play_refusals(player: Player) -> None:
    complete = player.complete
    complete("too long", prompt=text("m", 5000))
    complete("no room for output", prompt=text("m", 4096), max_tokens=1)
    for value in (0, -1, "many"):
        complete(f"max_tokens {value}", prompt="hello", max_tokens=value)
    for value in ("", 3):
        complete(f"salt {value!r}", prompt="hello", cache_salt=value)
    complete("n=0", prompt="hello", n=0)
    complete("greedy n=3", prompt="hello", n=3, temperature=0)
    complete("negative temperature", prompt="hello", temperature=-1)
    for name, value in (
        ("empty", ""),
        ("no", None),
        ("empty list", []),
        ("unknown id", [99999]),
        ("object", {"a": 1}),
        ("number", 7),
    ):
        complete(f"{name} prompt", prompt=value)
    complete("unknown model", model="nope", prompt="hello")
    complete("stream x", prompt="hello", stream="x")
    complete("stream_options without stream", prompt="hello", stream_options={"include_usage": True})
    complete("prompt_logprobs streamed", prompt="hello", prompt_logprobs=1, stream=True)
    player.call("no JSON", "POST", COMPLETIONS, raw=b"{nope")
    player.call("a list", "POST", COMPLETIONS, raw=b"[]")
    player.call("no body", "POST", COMPLETIONS, raw=b"", headers={"Content-Type": "application/json"})
    player.call("other content type", "POST", COMPLETIONS, raw=b"{}", headers={"Content-Type": "text/plain"})
    player.call("GET completions", "GET", COMPLETIONS)
    player.call("unknown path", "GET", "/nothere")
    for path in ("/health", "/ping", "/version", "/v1/models"):
        player.call(f"GET {path}", "GET", path)


def play_chats(player: Player) -> None:
    chat, usage = player.chat, {"include_usage": True}
    system = [{"role": "system", "content": text("n", 300)}, *USER]
    chat("chat", messages=USER, max_tokens=4)
    chat("chat again, n=2", messages=USER, max_completion_tokens=4, n=2)
    chat("chat streamed", messages=system, max_tokens=4, stream=True, stream_options=usage)
    chat("chat streamed without usage", messages=system, max_tokens=4, stream=True)
    chat("chat streamed n=2", messages=system, max_tokens=4, stream=True, stream_options=usage, n=2)
    fresh = [{"role": "user", "content": text("t", 200)}]
    chat("chat streamed n=2, not cached", messages=fresh, max_tokens=4, stream=True, stream_options=usage, n=2)
    fresh = [{"role": "user", "content": text("u", 200)}]
    chat("chat n=2, not cached", messages=fresh, max_tokens=4, n=2)
    chat(
        "chat with parts",
        messages=[{"role": "user", "content": [{"type": "text", "text": "ab"}, {"type": "text", "text": "c"}]}],
        max_tokens=2,
    )
    chat("chat without content", messages=[{"role": "user"}], max_tokens=2)
    chat("chat prompt_logprobs", messages=USER, max_tokens=2, prompt_logprobs=1)
    chat(
        "chat continued",
        messages=[*USER, {"role": "assistant", "content": "ok"}],
        max_tokens=2,
        add_generation_prompt=False,
        continue_final_message=True,
    )
    chat("chat token ids wanted", messages=USER, max_tokens=2, return_token_ids=True)
    chat("chat empty", messages=[], max_tokens=2)
    chat("chat no messages", max_tokens=2)
    chat("chat messages text", messages="x", max_tokens=2)
    chat("chat without role", messages=[{"content": "x"}], max_tokens=2)
    chat("chat empty salt", messages=USER, cache_salt="", max_tokens=2)
    chat("chat max_tokens 0", messages=USER, max_tokens=0)
    chat("chat max_tokens 9000", messages=USER, max_tokens=9000)
    chat("chat too long", messages=[{"role": "user", "content": text("o", 5000)}], max_tokens=2)
    chat("chat unknown model", model="nope", messages=USER, max_tokens=2)


def play_adapters(player: Player, path_a: str, path_b: str) -> None:
    call, prompt = player.call, text("p", 200)
    call("load without name", "POST", LOAD, {"lora_path": path_a})
    call("load without path", "POST", LOAD, {"lora_name": "a"})
    call("load empty name", "POST", LOAD, {"lora_name": "", "lora_path": path_a})
    call("load empty path", "POST", LOAD, {"lora_name": "a", "lora_path": ""})
    call("load number", "POST", LOAD, {"lora_name": 3, "lora_path": path_a})
    call("load base name", "POST", LOAD, {"lora_name": "tiny", "lora_path": path_a})
    call("load", "POST", LOAD, {"lora_name": "a", "lora_path": path_a})
    call("load twice", "POST", LOAD, {"lora_name": "a", "lora_path": path_a})
    call("load in place", "POST", LOAD, {"lora_name": "a", "lora_path": path_a, "load_inplace": True})
    call("load b", "POST", LOAD, {"lora_name": "b", "lora_path": path_b})
    call("models", "GET", "/v1/models")
    for model in ("tiny", "a", "b"):
        player.complete(f"adapter {model}", model=model, prompt=prompt)
        player.complete(f"adapter {model} again", model=model, prompt=prompt)
    call("unload", "POST", UNLOAD, {"lora_name": "a"})
    player.complete("unloaded adapter", model="a", prompt=prompt)
    call("load a again", "POST", LOAD, {"lora_name": "a", "lora_path": path_a})
    player.complete("reloaded adapter", model="a", prompt=prompt)
    call("unload for another path", "POST", UNLOAD, {"lora_name": "a"})
    call("load a from another path", "POST", LOAD, {"lora_name": "a", "lora_path": path_b})
    player.complete("adapter of another path", model="a", prompt=prompt)
    call("unload unknown", "POST", UNLOAD, {"lora_name": "zz"})
    call("unload without name", "POST", UNLOAD, {})
    call("unload empty name", "POST", UNLOAD, {"lora_name": ""})


def play_resets(player: Player) -> None:
    prompt, call = text("q", 100), player.call
    player.complete("before the reset", prompt=prompt)
    player.complete("before the reset again", prompt=prompt)
    call("reset", "POST", RESET)
    call("reset an empty cache", "POST", RESET)
    player.complete("after the reset", prompt=prompt)
    call("GET reset", "GET", RESET)
    call("reset maybe", "POST", f"{RESET}?reset_running_requests=maybe")
    call("reset idle with preemption", "POST", f"{RESET}?reset_running_requests=true")
    player.complete("after that reset", prompt=prompt)


def play_running(player: Player) -> None:
    """A reset while a request runs, and a client that leaves."""
    with player.running(prompt=text("q", 100), max_tokens=1000):
        player.notes["reset while a request runs"] = player.exchange("POST", RESET)
    player.settled()
    player.complete("cache after the refused reset", prompt=text("q", 100))
    before = player.counters()
    with player.running(prompt=text("q", 100), max_tokens=1000):
        preempting = player.exchange("POST", f"{RESET}?reset_running_requests=true")
    player.notes["reset that preempts"] = {
        "answer": preempting,
        "counters": difference(before, player.settled()),
    }
    before = player.counters()
    with player.held(prompt=text("r", 64), max_tokens=4000):
        pass
    after = difference(before, player.settled())
    names = (
        'request_success_total{finished_reason="abort"}',
        "prompt_tokens_total",
        "prefix_cache_queries_total",
        "request_params_n_count",
        "e2e_request_latency_seconds_count",
    )
    stopped = after["generation_tokens_total"] < 4000
    player.notes["client left"] = {"stopped": stopped, **{name: after.get(name) for name in names}}


def play_pressure(player: Player) -> None:
    """Eight requests of 1,000 + 400 tokens in a pool of 4,096: some are preempted, each is looked up once."""
    before = player.counters()
    threads = [
        threading.Thread(
            target=player.exchange,
            args=(
                "POST",
                COMPLETIONS,
                {"model": "tiny", "prompt": text(f"s{number}", 1000), "max_tokens": 400, "ignore_eos": True},
            ),
        )
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = difference(before, player.settled())
    names = (
        "prefix_cache_queries_total",
        "prefix_cache_hits_total",
        "prompt_tokens_total",
        "generation_tokens_total",
        'request_success_total{finished_reason="length"}',
        "request_prefill_kv_computed_tokens_sum",
    )
    player.notes["pressure"] = {
        "preempted": after["num_preemptions_total"] > 0,
        **{name: after.get(name) for name in names},
    }


def main() -> None:
    url, out, adapter_a, adapter_b = sys.argv[1:]
    player = Player(url)
    play(player, adapter_a, adapter_b)
    result = {**player.notes, "families": families(player.page())}
    lines = [f"{json.dumps(name)}: {json.dumps(note, sort_keys=True)}" for name, note in result.items()]
    Path(out).write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
