"""Parts of a trace to chains of blocks, each part by itself, and the parts joined in their order."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hitcurve_simulator.estimate.accesses import Accesses
from hitcurve_simulator.estimate.chains import Chains, chains_of
from hitcurve_simulator.traces import LineFinding, TraceRow
from hitcurve_simulator.traces.formats import TimeUnit
from hitcurve_simulator.traces.parse_row import TIME_GOES_BACKWARDS, RowParser, RowRefused
from hitcurve_simulator.traces.text import DigestedPieces, Encoder
from hitcurve_simulator.traces.tokenizers import tokenizer_by_name
from hitcurve_simulator.vllm import Request

__all__ = ["Part", "RowOptions", "joined_chains", "part_of_lines", "part_of_rows"]

_UNNAMED_BITS = 40
"""Blocks without a name are numbered from the part's own number on."""


@dataclass(frozen=True, slots=True)
class RowOptions:
    """How lines become rows and rows blocks. ``tokenizer``: by the word a user gives."""

    block_size: int
    time_unit: TimeUnit
    tokenizer: str


@dataclass(frozen=True, slots=True)
class Part:
    """What is left of a part: its chains, rows without what they hold, and what was odd about them."""

    chains: Chains
    rows: tuple[TraceRow, ...]
    rejected: tuple[LineFinding, ...] = ()
    warnings: tuple[LineFinding, ...] = ()
    parents: tuple[tuple[int, object], ...] = ()
    """Lines that name the turn before them, as ``link_sessions`` wants them."""


def part_of_lines(number: int, first_line: int, text: bytes, options: RowOptions) -> Part:
    """JSON lines of a trace, the first of which is ``first_line`` of its file."""
    parser = RowParser(options.block_size, options.time_unit, tokenizer=_tokenizer(options.tokenizer))
    rows: list[TraceRow] = []
    rejected: list[LineFinding] = []
    warnings: list[LineFinding] = []
    parents: list[tuple[int, object]] = []
    for line, one in enumerate(text.split(b"\n"), first_line):
        if not one.strip():
            continue
        try:
            values = json.loads(one)
            if isinstance(values, dict) and values.get("parent_chat_id") is not None:
                parents.append((line, {"parent_chat_id": values["parent_chat_id"]}))
            row, notes = parser.parse(line, values)
        except UnicodeDecodeError:
            rejected.append(LineFinding(line, "not UTF-8 text"))
        except RowRefused as error:
            rejected.append(LineFinding(line, str(error)))
        except (ValueError, RecursionError):
            shown = one.strip().decode("utf-8", "replace")
            rejected.append(LineFinding(line, f"not JSON: {shown if len(shown) <= 40 else shown[:37] + '...'!r}"))
        else:
            rows.append(row)
            warnings.extend(LineFinding(line, note) for note in notes if note != TIME_GOES_BACKWARDS)
    part = part_of_rows(number, rows, None, options.block_size, outputs=False)
    return replace(part, rejected=tuple(rejected), warnings=tuple(warnings), parents=tuple(parents))


def part_of_rows(
    number: int, rows: Sequence[TraceRow], salts: Sequence[int] | None, block_size: int, outputs: bool
) -> Part:
    """Rows that were read already."""
    chains = chains_of(rows, block_size, block_size, outputs, salts, unnamed_from=number << _UNNAMED_BITS)
    return Part(chains, tuple(_emptied(row) for row in rows))


def joined_chains(parts: Sequence[Chains], warm_up: int = 0) -> Chains:
    """The chains of all parts in order; the first ``warm_up`` requests only leave their blocks behind."""
    names = [part.namespaces[code] for part in parts for code in part.namespace_of.tolist()]
    known: dict[tuple[str | None, str | None], int] = {}
    namespace_of = np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)
    reads = np.concatenate([part.reads for part in parts])
    reads[:warm_up] = False
    return Chains(
        _joined([part.bound for part in parts], warm_up),
        _joined([part.engine for part in parts], warm_up),
        tuple(known),
        namespace_of,
        reads,
    )


def _joined(parts: Sequence[Accesses], warm_up: int) -> Accesses:
    lengths = np.concatenate([part.lengths for part in parts])
    names = np.concatenate([part.names for part in parts])
    queried = np.concatenate([part.queried for part in parts])
    tokens = np.concatenate([part.tokens for part in parts])
    queried[:warm_up] = 0
    tokens[:warm_up] = 0
    same = all(part.keys is part.names for part in parts)
    return Accesses(
        parts[0].block_size,
        np.concatenate(([0], np.cumsum(lengths))),
        names,
        names if same else np.concatenate([part.keys for part in parts]),
        queried,
        tokens,
        np.concatenate([part.last_block_tokens for part in parts]),
    )


def _emptied(row: TraceRow) -> TraceRow:
    """Who asked, without what: all that is needed once blocks have names."""
    request = Request(
        request_id=row.request.request_id,
        adapter=row.request.adapter,
        cache_salt=row.request.cache_salt,
        prompt_length=row.request.prompt_tokens,
    )
    return TraceRow(row.line, request, arrival_s=row.arrival_s, session=row.session, tenant=row.tenant)


def _tokenizer(name: str) -> Encoder:
    return DigestedPieces() if name == "pieces" else tokenizer_by_name(name)
