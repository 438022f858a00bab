from __future__ import annotations

from costhub.dataset.features.trace_columns import COLUMN_NAMES, KIND_NUMBERS, KINDS, WORD_NUMBERS, WORDS


def test_the_kinds_are_those_of_tvm() -> None:
    from tvm.s_tir.schedule import InstructionKind

    assert [InstructionKind.get(kind).name for kind in KINDS] == KINDS


def test_every_kind_and_word_has_a_number_of_its_own_and_none_has_0() -> None:
    assert sorted(KIND_NUMBERS[kind] for kind in KINDS) == list(range(1, len(KINDS) + 1))
    assert sorted(WORD_NUMBERS.values()) == list(range(1, len(WORDS) + 1))
    assert KIND_NUMBERS["GetBlock"] == KIND_NUMBERS["GetSBlock"]


def test_names_of_columns_are_unique() -> None:
    assert len(set(COLUMN_NAMES)) == len(COLUMN_NAMES) == 48
