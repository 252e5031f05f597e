"""The fixed names of everything odd that a page or an interval can show, in one place."""

from typing import Final

__all__ = [
    "ALL_FLAGS",
    "COUNTERS_STALLED",
    "DUPLICATE_SERIES",
    "EXTERNAL_EXCEEDS_MISSES",
    "HITS_EXCEED_QUERIES",
    "LONG_LABEL",
    "LOOKUPS_EXCEED_PROMPT_TOKENS",
    "RESTART_IN_ONE_COUNTER",
    "SPELLING_CHANGED",
    "START_TIME_CHANGED",
    "UNKNOWN_BLOCK_SIZE",
    "UNREADABLE_LOOKUPS",
    "UNSTABLE_TARGET",
]

RESTART_IN_ONE_COUNTER: Final = "restart_in_one_counter"
START_TIME_CHANGED: Final = "start_time_changed"
UNSTABLE_TARGET: Final = "unstable_target"
HITS_EXCEED_QUERIES: Final = "hits_exceed_queries"
LOOKUPS_EXCEED_PROMPT_TOKENS: Final = "lookups_exceed_prompt_tokens"
EXTERNAL_EXCEEDS_MISSES: Final = "external_exceeds_misses"
SPELLING_CHANGED: Final = "spelling_changed"
DUPLICATE_SERIES: Final = "duplicate_series"
COUNTERS_STALLED: Final = "stalled"
UNKNOWN_BLOCK_SIZE: Final = "unknown_block_size"
LONG_LABEL: Final = "long_label"
UNREADABLE_LOOKUPS: Final = "unreadable_lookups"

ALL_FLAGS: Final[dict[str, str]] = {
    RESTART_IN_ONE_COUNTER: "only one of the two lookup counters fell; the pair was treated as restarted",
    START_TIME_CHANGED: "the start time changed although no counter fell; the pair was treated as restarted",
    UNSTABLE_TARGET: "the target flips between processes; scrape each replica by its own address",
    HITS_EXCEED_QUERIES: "more hits than queries in this interval: the page was read between two increments",
    LOOKUPS_EXCEED_PROMPT_TOKENS: "more tokens were looked up than prompts hold: lookups were counted repeatedly",
    EXTERNAL_EXCEEDS_MISSES: "the external cache claims more hits than the local cache missed",
    SPELLING_CHANGED: "the counters changed their name or unit; treated as a restart",
    DUPLICATE_SERIES: "the page prints a series more than once; it was counted once",
    COUNTERS_STALLED: "requests wait while the counters stand still",
    LONG_LABEL: "a label value is longer than 200 characters; it was cut and ends in a digest",
    UNKNOWN_BLOCK_SIZE: "the engine counts blocks and the page does not say how many tokens a block holds",
    UNREADABLE_LOOKUPS: "one of the two lookup counters is missing or no count; nothing was taken from the engine",
}
