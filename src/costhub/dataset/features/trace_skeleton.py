"""Provides Skeleton: token rows of a trace without its decisions, which candidates of one design share."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from costhub.dataset.features.spec import slog
from costhub.dataset.features.trace_columns import (
    ARGUMENT0,
    ARGUMENTS,
    ATTRIBUTE0,
    ATTRIBUTES,
    COLUMN_NAMES,
    DECISION,
    FACTOR0,
    FACTORS,
    KIND_NUMBERS,
    OTHER_WORDS,
    TEXT0,
    TEXTS,
    WORD_NUMBERS,
    WORDS,
)
from costhub.dataset.programs import FloatArray

_MAX_ITEMS = 64
_WIDTH = len(COLUMN_NAMES)


@dataclass
class _Sampler:
    """What the decision of one instruction means for the rows."""

    choices: list[Any]
    """What a decision that is one number chooses from."""
    uses: list[tuple[int, int]] = field(default_factory=list)
    """(result, cell) wherever a result of the instruction is an argument; a cell counts row by row."""


@dataclass(frozen=True)
class Skeleton:
    """What the instructions of a trace say by themselves.

    The mutators of a search change decisions, and what they leave the same is the same in many candidates. So
    a list of instructions is read once, and each candidate enters its decisions into a copy of the rows.
    """

    rows: FloatArray
    """(instructions, width) rows of the trace without its decisions."""
    samplers: dict[int, _Sampler]
    """By number of the instruction; one that could not be read has none."""

    @classmethod
    def read(cls, instructions: Sequence[Any]) -> Skeleton:
        """Reads instructions, each a list of kind, arguments, attributes and results as JSON has it.

        Any values will do: what is no instruction has a row of zeros.
        """
        rows: list[list[float]] = []
        samplers: dict[int, _Sampler] = {}
        made: dict[str, tuple[int, int]] = {}
        in_postproc = 0.0
        for number, instruction in enumerate(instructions):
            row = [0.0] * _WIDTH
            rows.append(row)
            row[1] = in_postproc
            if not (
                isinstance(instruction, list) and len(instruction) == 4 and isinstance(instruction[0], str)
            ):
                continue
            kind, *parts = instruction
            arguments, attributes, results = (part if isinstance(part, list) else [part] for part in parts)
            row[0] = float(KIND_NUMBERS.get(kind, 0))
            texts = _fill_attributes(row, attributes)
            texts += _fill_arguments(row, arguments, number, made, samplers)
            row[3] = slog(len(results))
            for i, text in enumerate(texts[:TEXTS]):
                row[TEXT0 + i] = _word(text)
            has_choices = bool(attributes) and isinstance(attributes[0], list)
            samplers[number] = _Sampler(attributes[0] if has_choices else [])
            made |= {name: (number, i) for i, name in enumerate(results) if isinstance(name, str)}
            if kind == "EnterPostproc":
                in_postproc = 1.0
        return cls(np.array(rows, np.float32).reshape(-1, _WIDTH), samplers)

    def decided(self, decisions: Mapping[int, Any]) -> FloatArray:
        """(instructions, width) rows of the trace with these decisions, by number of the instruction."""
        cells: list[int] = []
        entries: list[float] = []
        for number, decision in decisions.items():
            sampler = self.samplers.get(number)
            if sampler is None:
                continue
            first = number * _WIDTH + DECISION
            cells.append(first)
            entries.append(1.0)
            if isinstance(decision, list):
                values = [_number(factor) for factor in _items(decision)]
                cells += range(
                    first + FACTOR0 - DECISION, first + FACTOR0 - DECISION + min(len(values), FACTORS)
                )
                entries += values[:FACTORS]
            elif isinstance(decision, int):
                cells.append(first + 1)
                entries.append(float(max(-1024, min(1024, decision))))
                known = 0 <= decision < len(sampler.choices)
                values = [_number(sampler.choices[decision])] if known else []
            else:
                continue
            for result, cell in sampler.uses:
                if result < len(values):
                    cells.append(cell)
                    entries.append(values[result])
        rows = self.rows.copy()
        rows.reshape(-1)[cells] = entries
        return rows


def _fill_attributes(row: list[float], attributes: list[Any]) -> list[str]:
    """Enters the numbers and returns the texts."""
    texts: list[str] = []
    place = ATTRIBUTE0
    for item in _items(attributes):
        if isinstance(item, str):
            texts.append(item)
        elif place < ATTRIBUTE0 + ATTRIBUTES:
            row[place] = _number(item)
            place += 1
    return texts


def _fill_arguments(
    row: list[float],
    arguments: list[Any],
    number: int,
    made: Mapping[str, tuple[int, int]],
    samplers: Mapping[int, _Sampler],
) -> list[str]:
    """Enters what the arguments refer to and returns the texts that are no references."""
    texts: list[str] = []
    place = ARGUMENT0
    count = 0
    for item in _items(arguments):
        count += 1
        found = made.get(item) if isinstance(item, str) else None
        if found is None and isinstance(item, str):
            texts.append(item)
        if place < ARGUMENT0 + 3 * ARGUMENTS:
            if found is not None:
                maker, result = found
                row[place : place + 2] = [float(number - maker), float(result)]
                samplers[maker].uses.append((result, number * _WIDTH + place + 2))
            elif not isinstance(item, str):
                row[place + 2] = _number(item)
            place += 3
    row[2] = slog(count)
    return texts


def _items(values: list[Any]) -> Iterator[Any]:
    """The values one after the other, those of lists in their place; no more than `_MAX_ITEMS`."""
    open_ends, left = [iter(values)], _MAX_ITEMS
    while open_ends and left:
        item = next(open_ends[-1], _END)
        if item is _END:
            open_ends.pop()
        elif isinstance(item, list):
            open_ends.append(iter(item))
        else:
            left -= 1
            yield item


_END = object()


def _number(value: Any) -> float:
    return slog(value) if isinstance(value, (int, float)) else 0.0


@functools.lru_cache(maxsize=4096)
def _word(text: str) -> float:
    text = text.strip('"')
    if text in WORD_NUMBERS:
        return float(WORD_NUMBERS[text])
    return float(len(WORDS) + 1 + zlib.crc32(text.encode(errors="replace")) % OTHER_WORDS)
