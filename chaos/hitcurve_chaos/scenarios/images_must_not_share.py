"""One text, two images: the second may find what precedes the image, and nothing of the image or behind it."""

from typing import Any

from hitcurve_chaos.calls import NoAnswer
from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.scenarios.drills import applied, drill
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["IMAGES_MUST_NOT_SHARE"]

_TIMEOUT_S = 120.0
_WORDS = 40
# A red and a blue picture of one pixel.
_HEAD = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nG"
_IMAGES = (
    f"{_HEAD}P4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC",
    f"{_HEAD}NgYPgPAAEDAQAIicLsAAAAAElFTkSuQmCC",
)


def _act(bench: Bench, numbers: Numbers) -> Injection:
    text = bench.probe.new_prompt(_WORDS)
    answers = [_ask(bench, image, text) for image in (_IMAGES[0], _IMAGES[1], _IMAGES[0], _IMAGES[1])]
    said = next((answer for answer in answers if isinstance(answer, str)), None)
    if said is not None:
        return Injection("unsupported", f"the engine takes no images ({said})")
    cached = [answer["cached"] for answer in answers if isinstance(answer, dict)]
    # The first image stands before the text, so only the chat template's head can be shared.
    numbers["shared_tokens"] = max(0, cached[1] - bench.block_size)
    numbers["own_images_found"] = sum(one > bench.block_size for one in cached[2:])
    texts = [answer["text"] for answer in answers if isinstance(answer, dict)]
    numbers["changed_answers"] = sum(before != after for before, after in zip(texts[:2], texts[2:], strict=True))
    return applied("one text was sent behind two images, twice each")


def _ask(bench: Bench, image: str, text: str) -> dict[str, Any] | str:
    """Cached tokens and the text of a greedy answer, or why there is none."""
    parts = [{"type": "image_url", "image_url": {"url": image}}, {"type": "text", "text": text}]
    body = {
        "model": bench.target.model,
        "messages": [{"role": "user", "content": parts}],
        "max_tokens": 8,
        "temperature": 0,
    }
    url = f"{bench.target.engine}/v1/chat/completions"
    try:
        answer = bench.transport.send(
            "POST", url, json_body=body, headers=bench.target.headers(), timeout_s=_TIMEOUT_S
        )
    except NoAnswer as error:
        return str(error)
    values = answer.json()
    if answer.status != 200 or not isinstance(values, dict) or not values.get("choices"):
        return answer.said
    details = (values.get("usage") or {}).get("prompt_tokens_details") or {}
    if details.get("cached_tokens") is None:
        return "it tells no cached tokens"
    return {"cached": details["cached_tokens"], "text": values["choices"][0]["message"]["content"]}


IMAGES_MUST_NOT_SHARE = drill(
    name="images-must-not-share",
    title="Images must not share",
    expected="Behind another image the same text is computed; behind the same it is found and answered alike.",
    act=_act,
    expectations=(
        Expectation("shared_tokens", "tokens found behind an image that was never sent", AtMost(0)),
        Expectation("changed_answers", "answers that changed once they came from the cache", AtMost(0)),
        Expectation("own_images_found", "of two images sent again, how many were found", AtLeast(2)),
    ),
    needs=("cached_tokens", "images"),
    story=Story(
        fault="The same text is sent behind two images, twice each.",
        signature="First requests miss (isolated, key image), second ones hit.",
        rollback="None is needed.",
        safety="Four short chats.",
    ),
)
