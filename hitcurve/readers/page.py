"""From the bytes of a page to samples, or a refusal that says why."""

from dataclasses import replace
from functools import cache
from typing import Final

from hitcurve.flags import LONG_LABEL
from hitcurve.readers import sglang, trtllm, trtllm_json, vllm
from hitcurve.readers.exposition import MalformedLine, parse_page, parse_sample
from hitcurve.readers.long_labels import with_short_labels
from hitcurve.readers.refusal import PageRefused
from hitcurve.readers.vllm_names import spellings
from hitcurve.sample import EngineSample

__all__ = ["MOST_ENGINES", "read_page", "wanted_names"]

MOST_ENGINES: Final = 1024
_GZIP: Final = b"\x1f\x8b"


def read_page(
    body: bytes | str, content_type: str | None, *, at_s: float, monotonic_s: float
) -> tuple[EngineSample, ...]:
    """One sample per engine on the page, at least one.

    ``at_s`` and ``monotonic_s`` (seconds) are copied into the samples. Raises PageRefused for a page that is not
    one of metrics, is cut off, has a malformed line among those needed, or has no prefix-cache counters.
    """
    text = _text(body)
    if text[:200].lstrip().startswith("["):
        sample = trtllm_json.read_trtllm_json(text, at_s=at_s, monotonic_s=monotonic_s)
        if sample is not None:
            return (sample,)
    _refuse_what_is_no_page(text, content_type or "")
    try:
        page, cut = with_short_labels(parse_page(text, wanted_names()))
    except MalformedLine as error:
        raise PageRefused(f"The page is malformed: {error}.") from error
    samples = (
        vllm.read_vllm(page, at_s=at_s, monotonic_s=monotonic_s)
        or sglang.read_sglang(page, at_s=at_s, monotonic_s=monotonic_s)
        or trtllm.read_trtllm(page, at_s=at_s, monotonic_s=monotonic_s)
    )
    if not samples:
        raise PageRefused(_why_nothing(text))
    if len(samples) > MOST_ENGINES:
        raise PageRefused(f"The page shows {len(samples)} engines, more than the {MOST_ENGINES} allowed.")
    return tuple(replace(sample, flags=(*sample.flags, LONG_LABEL)) for sample in samples) if cut else samples


@cache
def wanted_names() -> frozenset[str]:
    """Every printed sample name that a reader looks for; everything else on a page is skipped unread."""
    return frozenset(spellings()) | frozenset(sglang.sglang_names()) | frozenset(trtllm.trtllm_names())


def _text(body: bytes | str) -> str:
    if isinstance(body, str):
        return body
    if body.startswith(_GZIP):
        raise PageRefused("The page is packed with gzip; unpack it.")
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PageRefused("The page is not UTF-8 text.") from error


def _refuse_what_is_no_page(text: str, content_type: str) -> None:
    start = text[:200].lstrip()
    if not start:
        raise PageRefused("The page is empty.")
    if start.startswith("<"):
        raise PageRefused("The page is HTML, not metrics; the address probably misses /metrics.")
    if start.startswith(("[", "{")) and text.rstrip().endswith(("]", "}")):
        raise PageRefused("The page is JSON, not metrics; the address probably misses /metrics.")
    if not any(line[:1] == "#" or parse_sample(line) for line in text.split("\n", 50)[:50] if line.strip()):
        raise PageRefused("The page is not a metrics page in the Prometheus text format.")
    has_eof = text.rstrip("\r\n").endswith("\n# EOF")
    if not text.endswith("\n") and not has_eof:
        raise PageRefused("The page is cut off: it does not end with a line feed.")
    if "openmetrics" in content_type and not has_eof:
        raise PageRefused("The page is cut off: it does not end with '# EOF' as OpenMetrics must.")


def _why_nothing(text: str) -> str:
    looked_for = (
        f"looked for {vllm.LOOKED_FOR}, its older and rewritten names, {sglang.LOOKED_FOR} and {trtllm.LOOKED_FOR}"
    )
    if "vllm:" in text:
        return f"The page has vLLM metrics but no prefix-cache counters ({looked_for})."
    if "sglang:" in text or "sglang_" in text:
        return (
            f"The page has SGLang metrics but no pair of token counters ({sglang.LOOKED_FOR}, or "
            "sglang:prompt_tokens_total with sglang:cached_tokens_total); they come with the first tokens."
        )
    if "trtllm" in text:
        return (
            f"The page has TensorRT-LLM metrics but no counters of cache blocks ({trtllm.LOOKED_FOR}); "
            "they come with enable_iter_perf_stats: true and the first iteration."
        )
    if "hitcurve_exporter_" in text:
        return "The page is that of a hitcurve exporter, not of an engine; name the engines that it scrapes."
    if "\npython_info" in text or "process_start_time_seconds" in text:
        return (
            f"The page has metrics but none of an engine's prefix cache ({looked_for}); "
            "vLLM prints none with --disable-log-stats."
        )
    return f"The page has no prefix-cache counters ({looked_for})."
