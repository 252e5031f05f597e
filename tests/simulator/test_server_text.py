"""Tokenizer, chat template and replies of the simulated model."""

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hitcurve_simulator.server import tokenizer
from hitcurve_simulator.server.application import SERVING, build_application
from hitcurve_simulator.server.clock import VirtualClock
from hitcurve_simulator.server.parameters import read_parameters
from hitcurve_simulator.server.replies import ReplyWriter
from hitcurve_simulator.server.request_body import RequestBody
from hitcurve_simulator.server.settings import EngineSettings

chats = st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text(max_size=30)), max_size=6)


@given(st.text())
def test_text_survives_the_tokenizer_and_a_byte_is_a_token(text: str) -> None:
    tokens = tokenizer.encode(text)
    assert bytes(tokens) == text.encode("utf-8", "replace")
    assert tokenizer.decode(tokens) == text.encode("utf-8", "replace").decode()


def test_special_tokens_have_no_text_and_broken_utf8_is_replaced() -> None:
    assert tokenizer.decode([104, 257, 105, 258, 0xFF]) == "hi\ufffd"


def test_chat_template() -> None:
    messages = [("system", "Be brief."), ("user", "Hi\nthere")]
    assert (
        tokenizer.render_chat(messages, ask_for_reply=True) == "[system] Be brief.\n[user] Hi\nthere\n[assistant] "
    )
    assert tokenizer.render_chat(messages, ask_for_reply=False) == "[system] Be brief.\n[user] Hi\nthere\n"
    assert (
        tokenizer.render_chat([("user", "Go"), ("assistant", "on")], ask_for_reply=False, keep_last_open=True)
        == "[user] Go\n[assistant] on"
    )


@given(chats, st.text(max_size=30), st.text(max_size=30))
def test_the_next_turn_extends_prompt_and_reply_token_for_token(
    chat: list[tuple[str, str]], reply: str, question: str
) -> None:
    prompt = tokenizer.encode(tokenizer.render_chat(chat, ask_for_reply=True)) + tokenizer.encode(reply)
    grown = [*chat, ("assistant", reply), ("user", question)]
    assert tokenizer.encode(tokenizer.render_chat(grown, ask_for_reply=True))[: len(prompt)] == prompt


@given(st.binary(max_size=50), st.integers(1, 300), st.booleans(), st.integers(0, 3))
def test_replies_are_short_enough_plain_and_repeatable(
    prompt: bytes, most: int, ignore_end: bool, sample: int
) -> None:
    writer = ReplyWriter(seed=7, mean_tokens=100)
    reply = writer.reply(list(prompt), max_tokens=most, ignore_end=ignore_end, sample=sample)
    again = ReplyWriter(seed=7, mean_tokens=100).reply(
        list(prompt), max_tokens=most, ignore_end=ignore_end, sample=sample
    )
    assert reply == again
    ends_itself = reply[-1] == tokenizer.END_OF_TEXT
    text = tokenizer.decode(reply)
    assert len(reply) == most if ignore_end else 1 <= len(reply) <= most
    assert not (ends_itself and ignore_end)
    assert text == "" or text.replace(" ", "").isalpha()
    assert len(text) == len(reply) - ends_itself


def test_a_reply_is_this_one_in_every_process() -> None:
    reply = ReplyWriter(seed=1).reply(tokenizer.encode("hello"), max_tokens=24)
    assert tokenizer.decode(reply) == "umber under grove small "


def test_seed_adapter_and_sample_change_the_reply() -> None:
    def reply(seed: int = 0, **how: Any) -> str:
        return tokenizer.decode(ReplyWriter(seed).reply([1, 2, 3], max_tokens=40, ignore_end=True, **how))

    replies = [reply(), reply(1), reply(request_seed=5), reply(adapter="a"), reply(adapter="b"), reply(sample=1)]
    assert len(set(replies)) == len(replies)


def test_a_chat_grown_by_its_own_replies_hits_all_that_came_before(engine_server: Callable[..., Any]) -> None:
    server = engine_server(EngineSettings(block_size=16))
    chat = [{"role": "user", "content": "Tell me about rivers, please, at some length."}]
    earlier = 0
    for turn in range(4):
        answer = server.chat(chat, max_tokens=40, ignore_eos=True).json
        usage = answer["usage"]
        # the reply's last token is computed only when something follows it
        assert usage["prompt_tokens_details"]["cached_tokens"] == max(0, earlier - 1) // 16 * 16, turn
        earlier = usage["total_tokens"]
        chat.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
        chat.append({"role": "user", "content": f"And then? ({turn})"})


def test_a_reply_ends_by_itself_at_a_stop_string_or_for_its_length(engine_server: Callable[..., Any]) -> None:
    server = engine_server(EngineSettings(reply_tokens=20))
    whole = server.complete("hello", max_tokens=200, ignore_eos=False, return_token_ids=True).json["choices"][0]
    assert (whole["finish_reason"], whole["stop_reason"]) == ("stop", None)
    assert whole["token_ids"][-1] == tokenizer.END_OF_TEXT
    assert whole["text"] == tokenizer.decode(whole["token_ids"])
    stop = whole["text"][5:8]
    cut = server.complete("hello", max_tokens=200, ignore_eos=False, stop=[stop, "never"]).json
    choice = cut["choices"][0]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)
    assert choice["text"] == whole["text"].partition(stop)[0]
    assert cut["usage"]["completion_tokens"] == len(choice["text"]) + len(stop)
    short = server.complete("hello", max_tokens=3).json["choices"][0]
    assert (short["finish_reason"], short["text"]) == ("length", whole["text"][:3])


def test_a_slow_reader_gets_every_token() -> None:
    """The engine is done before anybody reads."""
    application = build_application(EngineSettings(), VirtualClock())
    serving = application[SERVING]
    body = RequestBody({"stream": True, "max_tokens": 50, "n": 2, "ignore_eos": True})
    parameters = read_parameters(body, default_max_tokens=None)

    async def read_late() -> list[tuple[int, int, str | None]]:
        loop = asyncio.create_task(serving.engine.run())
        async with serving.generator.start([[1, 2, 3]], parameters, None, "late") as generation:
            while serving.engine.scheduler.has_requests:
                await asyncio.sleep(0)
            seen = [
                (delivery.sequence.index, delivery.delivered, delivery.finish)
                async for delivery in generation.deliveries()
            ]
        loop.cancel()
        return seen

    expected = [(index, at, "length" if at == 50 else None) for at in range(1, 51) for index in range(2)]
    assert asyncio.run(read_late()) == expected


def test_streamed_text_is_the_whole_text(engine_server: Callable[..., Any]) -> None:
    server = engine_server(EngineSettings(reply_tokens=20))
    body = {"max_tokens": 200, "ignore_eos": False}
    for stop in ([], [" "]):
        whole = server.complete("hello", stop=stop, **body).json["choices"][0]
        *chunks, done = server.complete("hello", stop=stop, stream=True, **body).events
        choices = [chunk["choices"][0] for chunk in chunks]
        assert "".join(choice["text"] for choice in choices) == whole["text"]
        assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["stop"]
        assert done == "[DONE]"


def test_tokenize_tells_the_tokens_that_a_prompt_or_a_chat_is_served_with(
    engine_server: Callable[..., Any],
) -> None:
    server = engine_server(EngineSettings(max_model_len=512))
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hä?"}]
    for path, body in [("/v1/completions", {"prompt": "Hä?"}), ("/v1/chat/completions", {"messages": messages})]:
        served = server.call("POST", path, {**body, "max_tokens": 1, "return_token_ids": True}).json
        tokens = served["choices"][0].get("prompt_token_ids") or served["prompt_token_ids"]
        told = server.call("POST", "/tokenize", body)
        assert (told.status, told.json["tokens"]) == (200, tokens)
        assert (told.json["count"], told.json["max_model_len"]) == (served["usage"]["prompt_tokens"], 512)
        assert told.json["token_strs"] is None
    strings = server.call("POST", "/tokenize", {"prompt": "hi", "return_token_strs": True}).json["token_strs"]
    assert strings == ["h", "i"]
    assert server.call("POST", "/tokenize", {}).json["error"]["param"] == "prompt"
    assert server.call("POST", "/tokenize", {"prompt": "x", "model": "nope"}).status == 404
    assert server.series()["vllm:prefix_cache_queries_total"] == sum(
        server.call("POST", "/tokenize", body).json["count"]
        for body in ({"prompt": "Hä?"}, {"messages": messages})
    )
