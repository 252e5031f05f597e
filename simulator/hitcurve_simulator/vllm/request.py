"""A request as it is sent, and its state while the engine works on it."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from hitcurve.hashing import Image

__all__ = ["Request", "RequestState", "RequestStatus"]

RequestStatus = Literal["waiting", "running", "preempted", "finished"]


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for.

    Either ``prompt_token_ids`` holds the prompt, or ``block_contents`` gives one id per full prompt block and
    ``prompt_length`` the tokens (traces that publish hashes instead of text). Ids beyond the prompt's full
    blocks name blocks that the output fills; full blocks without an id hold what no other request has.
    """

    request_id: str
    prompt_token_ids: Sequence[int] | None = None
    max_output_tokens: int = 1
    adapter: str | None = None
    adapter_path: str = ""
    cache_salt: str | None = None
    images: tuple[Image, ...] = ()
    """In the order of their offsets."""
    skip_reading_prefix_cache: bool = False
    """True for prompt_logprobs and the like: such a request does not read the cache, but writes to it."""
    block_contents: Sequence[Hashable] | None = None
    prompt_length: int | None = None
    extra_key: str | None = None
    """What SGLang also keeps requests apart by; vLLM knows none."""

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt in tokens."""
        if self.prompt_token_ids is not None:
            return len(self.prompt_token_ids)
        return self.prompt_length or 0


class RequestState:
    """A request inside the engine. Read it freely; only manager and scheduler change it."""

    __slots__ = (
        "blocks",
        "cached_blocks",
        "computed_tokens",
        "hashed_blocks",
        "hit_tokens",
        "keys",
        "num_tokens",
        "output_token_ids",
        "preemptions",
        "prefilling",
        "prompt_tokens",
        "request",
        "status",
    )

    def __init__(self, request: Request) -> None:
        self.request = request
        self.prompt_tokens = request.prompt_tokens
        self.num_tokens = self.prompt_tokens
        """Prompt plus output tokens known so far."""
        self.output_token_ids: list[int] = []
        self.keys: list[Hashable] = []
        """Key of each full block of prompt and output."""
        self.blocks: list[int] = []
        """Blocks held, in the order of the sequence."""
        self.cached_blocks = 0
        """How many of them are registered in the hash table, or were found there."""
        self.hashed_blocks = 0
        """How many keys a lookup may use in versions that hash late (``VllmRules.hashed_when_appended``)."""
        self.computed_tokens = 0
        self.hit_tokens: int | None = None
        """Tokens found at the first admission; None before, and for requests that may not read the cache."""
        self.prefilling = True
        self.preemptions = 0
        self.status: RequestStatus = "waiting"

    @property
    def request_id(self) -> str:
        return self.request.request_id

    @property
    def output_tokens(self) -> int:
        """Tokens generated so far."""
        return self.num_tokens - self.prompt_tokens
