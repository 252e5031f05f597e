"""What a person sees of a load run: one line that lives while it runs, and a table at the end."""

import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

from hitcurve.rate_text import percent
from hitcurve_loadtests.percentiles import describe
from hitcurve_loadtests.summary import RunTotals, client_hit_rate

__all__ = ["ProgressLine", "print_intended", "print_summary"]

_PLAIN_EVERY_S = 10.0
_ONLY_WHERE_TOLD = ("queue, as the engine says",)


class ProgressLine:
    """Rewrites one line on a terminal each second; elsewhere prints a line now and then."""

    def __init__(self, name: str, stream: TextIO = sys.stderr) -> None:
        self._name = name
        self._stream = stream
        self._live = stream.isatty()
        self._last_s = time.monotonic()

    def show(self, totals: RunTotals) -> None:
        """Requests and failures so far; hit rate and TTFT of the last 200 requests."""
        now_s = time.monotonic()
        if not self._live and now_s - self._last_s < _PLAIN_EVERY_S:
            return
        self._last_s = now_s
        ttft = describe([record.ttft_s for record in totals.recent if record.ttft_s is not None]).p50
        line = (
            f"{self._name}: {totals.finished} requests, {totals.failed} failed, "
            f"hit rate {_percent(client_hit_rate(totals.recent).hit_rate)}, TTFT p50 {_ms(ttft)}"
        )
        self._stream.write(f"\r\x1b[K{line}" if self._live else f"{line}\n")
        self._stream.flush()

    def end(self) -> None:
        """Leave the line, so that what follows begins on a new one."""
        if self._live:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def print_summary(summary: Mapping[str, Any]) -> None:
    """The table a person reads at the end, on stdout."""
    console = Console(highlight=False, soft_wrap=True)
    requests, cache = summary["requests"], summary["cache"]
    console.print(
        f"[bold]{summary['name']}[/]: {requests['ok']} requests ok, {requests['failed']} failed, "
        f"{requests['unfinished']} unfinished in {summary['elapsed_s']:.1f} s; seed {summary['seed']}"
    )
    unknown = f", unknown of {cache['unknown']} requests" if cache["unknown"] else ""
    console.print(
        f"hit rate {_percent(cache['hit_rate'])} "
        f"({cache['hit_tokens']} of {cache['query_tokens']} prompt tokens{unknown})"
    )
    _print_intended(console, summary)
    engine = summary["engine"]
    why = f" ({engine['reason']})" if engine["reason"] else ""
    console.print(f"hit rate by the engine's own counters {_percent(engine['hit_rate'])}{why}", markup=False)
    _print_exporter(console, summary["both_ends"]["exporter"])
    table = Table("", "n", "p50", "p90", "p99", "max")
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    rows = {
        "TTFT": summary["ttft_s"]["all"],
        "TTFT of hits": summary["ttft_s"]["hits"],
        "TTFT of misses": summary["ttft_s"]["misses"],
        "TTFT since scheduled": summary["ttft_s"]["since_scheduled"],
        "time per output token": summary["tpot_s"],
        "whole request": summary["request_duration_s"],
        "queue, as the engine says": summary["queue_s"],
        "generator: hub lag": summary["lag_s"]["hub"],
        "generator: sent late": summary["lag_s"]["send"],
    }
    for title, values in rows.items():
        if not values["count"] and title in _ONLY_WHERE_TOLD:
            continue
        table.add_row(title, str(values["count"]), *(_ms(values[key]) for key in ("p50", "p90", "p99", "max")))
    console.print(table)
    reasons = "".join(f"\n  {reason}" for reason in summary["reasons"])
    console.print(f"verdict: {summary['verdict']}{reasons}", markup=False)


def print_intended(intended: Mapping[str, Any] | None, stream: TextIO = sys.stderr) -> None:
    """Said before anything is sent, so that nobody fits the intention to the result."""
    if intended is not None and intended["shared"] is not None:
        ceiling = intended["ceiling"]
        blocks = "" if ceiling is None else f", at most {_percent(ceiling)} in blocks of {intended['block_size']}"
        stream.write(f"intended: {_percent(intended['shared'])} of the prompt tokens are shared{blocks}\n")
        stream.flush()


def _print_intended(console: Console, summary: Mapping[str, Any]) -> None:
    intended, warm = summary["intended"], summary["warm"]
    if intended is None or intended["shared"] is None:
        return
    warmed = f" after the first {warm['after_requests']} requests" if warm["after_requests"] else ""
    ceiling = "" if intended["ceiling"] is None else f", ceiling {_percent(intended['ceiling'])}"
    console.print(f"intended{warmed}: shared {_percent(intended['shared'])}{ceiling}")
    if warmed:
        console.print(f"hit rate{warmed}: {_percent(warm['hit_rate'])}")
    if intended["prompt_tokens_off"]:
        off = intended["prompt_tokens_off"]
        console.print(f"prompts are {off:+.1f} tokens off their intended length, on average", markup=False)


def _print_exporter(console: Console, exporter: Mapping[str, Any] | None) -> None:
    if exporter is None:
        return
    engines = exporter["engines"]
    queries, hits = (sum(engine[name] for engine in engines) for name in ("query_tokens", "hit_tokens"))
    why = f" ({exporter['reason']})" if exporter["reason"] else ""
    rate = hits / queries if queries > 0 else None
    console.print(f"hit rate by the exporter's counters {_percent(rate)}{why}", markup=False)


def _percent(rate: float | None) -> str:
    return percent(rate, 1, unit=" %", none="unknown")


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:.1f} ms"
