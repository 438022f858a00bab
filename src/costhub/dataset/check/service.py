"""Provides the child process that opens files from strangers and applies the rules on rows to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.check.context import Context, WorkloadFacts
from costhub.dataset.check.files import READABLE, SCHEMA, Source
from costhub.dataset.check.ledger import entries_of
from costhub.dataset.check.reading import Refusal, open_batches
from costhub.dataset.check.registry import RULES
from costhub.dataset.check.report import Breach
from costhub.dataset.check.rows import Rows
from costhub.dataset.check.rule import RowRule, TableRule
from costhub.dataset.check.zeros import useful_share
from costhub.dataset.memory_limit import limit_memory
from costhub.dataset.schema import columns_of

SERVICE = "costhub.dataset.check.service:handle"
MEMORY_BYTES = 2 << 30
_FLOAT32 = frozenset({"float32", "float64"})


@dataclass(frozen=True)
class Start:
    """Sets the process up: the memory it may take, and what the rules know."""

    context: Context


@dataclass(frozen=True)
class Open:
    """Opens a file; the reply is a Piece without rows, the last one where it cannot be used."""

    source: Source
    number: int
    """The number of the file, for the ledger."""
    as_dicts: bool = False
    """Whether the rows themselves are wanted, and no rule is applied."""


@dataclass(frozen=True)
class Next:
    """Reads on in the file that is open; the reply is a Piece, the last one with `is_last`."""


@dataclass(frozen=True)
class Fetch:
    """Asks for some columns of some rows of a file; the reply is a list of dicts, in their order."""

    source: Source
    rows: tuple[int, ...]
    columns: tuple[str, ...]


@dataclass
class Piece:
    """What came of a part of a file."""

    rows: int = 0
    """Rows in this part; after Open, those of the whole file."""
    breaches: list[Breach] = field(default_factory=list)
    entries: npt.NDArray[Any] | None = None
    """Ledger entries of measurements."""
    devices: list[dict[str, Any]] = field(default_factory=list)
    workloads: list[WorkloadFacts] = field(default_factory=list)
    dicts: list[dict[str, Any]] = field(default_factory=list)
    """The rows themselves, where they were asked for."""
    is_last: bool = False


@dataclass
class _State:
    context: Context = field(default_factory=Context)
    request: Open | None = None
    batches: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()))


_state = _State()


def handle(request: Start | Open | Next | Fetch) -> Any:
    """Answers a request; what is wrong with a file is a breach in the reply, and ends the file."""
    if isinstance(request, Start):
        # One thread per column would map an arena each, all of which count.
        pa.set_cpu_count(1)
        limit_memory(MEMORY_BYTES, beyond_tvm=False)
        _state.context = request.context
        return None
    try:
        if isinstance(request, Open):
            return _open(request)
        if isinstance(request, Fetch):
            return _fetch(request)
        return _next()
    except Refusal as refusal:
        rule, message = refusal.args
    except MemoryError:
        rule, message = READABLE.id, "Reading it takes more memory than the check allows itself."
    except Exception as error:  # parsers of damaged files raise anything
        rule, message = READABLE.id, f"It cannot be read ({type(error).__name__}: {_brief(error)})."
    if isinstance(request, Fetch):
        return []
    where = _state.request.source.where if _state.request is not None else "."
    return Piece(breaches=[Breach(rule, where, message)], is_last=True)


def _open(request: Open) -> Piece:
    _state.request, _state.batches = request, iter(())
    rows, _state.batches = open_batches(request.source)
    return Piece(rows=rows)


def _next() -> Piece:
    batch = next(_state.batches, None)
    if batch is None or _state.request is None:
        return Piece(is_last=True)
    source = _state.request.source
    batch.validate(full=True)
    piece = Piece(rows=batch.num_rows)
    batch = _without_nulls(batch, source, piece)
    if _state.request.as_dicts:
        piece.dicts = batch.to_pylist()
    elif source.table == "measurements":
        rows = Rows(batch, _state.context, source.device_id)
        _apply_row_rules(rows, source, piece)
        piece.entries = entries_of(rows, _state.request.number)
    else:
        _apply_table_rules(batch, source, piece)
    return piece


def _without_nulls(batch: pa.RecordBatch, source: Source, piece: Piece) -> pa.RecordBatch:
    """The rows that hold all that they must hold; the others are a breach."""
    whole = np.ones(batch.num_rows, bool)
    for column in columns_of(source.table):
        if not column.nullable and batch.column(column.name).null_count:
            missing = pc.is_null(batch.column(column.name)).to_numpy(zero_copy_only=False)
            names = _names(batch, missing, batch.schema.names[0])
            message = f"{column.name} is null, and every row must have it."
            piece.breaches.append(Breach(SCHEMA.id, source.where, message, int(missing.sum()), names))
            whole &= ~missing
    return batch if whole.all() else batch.filter(pa.array(whole))


def _apply_row_rules(rows: Rows, source: Source, piece: Piece) -> None:
    for rule in RULES.values():
        if isinstance(rule, RowRule):
            for message, mask in rule.find(rows):
                count = int(mask.sum())
                if count:
                    names = _names(rows.batch, mask, rule.shown)
                    piece.breaches.append(Breach(rule.id, source.where, message, count, names))


def _apply_table_rules(batch: pa.RecordBatch, source: Source, piece: Piece) -> None:
    rules = [r for r in RULES.values() if isinstance(r, TableRule) and source.table in r.tables]
    for row in batch.to_pylist():
        name = row[batch.schema.names[0]]
        for rule in rules:
            messages = set(rule.find(row))
            piece.breaches += [
                Breach(rule.id, source.where, message, 1, [name]) for message in sorted(messages)
            ]
        if source.table == "devices":
            piece.devices.append(row)
        else:
            is_float32 = _FLOAT32.issuperset(row["dtypes"])
            flop = row["flop"] * useful_share(row["module_json"])
            piece.workloads.append(WorkloadFacts(name, flop, row["bytes"], is_float32))


def _names(batch: pa.RecordBatch, mask: npt.NDArray[np.bool_], column: str) -> list[str]:
    """The first few distinct values of a column of text, cut to what may be shown."""
    values = pc.utf8_slice_codeunits(batch.column(column).filter(pa.array(mask)), 0, 64)
    return [str(value) for value in pc.unique(values)[:3].to_pylist()]


def _fetch(request: Fetch) -> list[dict[str, Any]]:
    wanted, start, found = np.array(sorted(request.rows)), 0, []
    for batch in open_batches(request.source)[1]:
        here = wanted[(wanted >= start) & (wanted < start + batch.num_rows)] - start
        found += batch.select(list(request.columns)).take(pa.array(here)).to_pylist()
        start += batch.num_rows
    return found


def _brief(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return json.dumps(lines[0][:160])[1:-1] if lines else "no message"
