from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.dataset.features.per_store import COLUMN_NAMES, WIDTH, extract
from costhub.dataset.workload import module_from_json


def column(rows: Any, name: str) -> list[float]:
    values: list[float] = rows[:, COLUMN_NAMES.index(name)].tolist()
    return values


def test_the_layout_has_172_columns_of_different_names() -> None:
    assert (WIDTH, len(set(COLUMN_NAMES))) == (172, 172)
    # Where TVM's source puts them.
    assert [COLUMN_NAMES.index(n) for n in ("is_gpu", "B0.acc_read", "arith_intensity_0", "alloc_size")] == [
        49,
        57,
        147,
        157,
    ]


def test_a_program_has_a_row_per_buffer_that_says_what_it_does(tiny_matmul: Any) -> None:
    mod = module_from_json(tiny_matmul.module_json)

    rows = extract(mod, [tiny_matmul.traces[2]], tiny_matmul.target)[0]

    assert rows is not None
    assert (rows.shape, rows.dtype) == ((1, 172), np.float32)
    # 16^3 multiplications, in TVM's log2(x + 1); split by 4: 4 parallel iterations and 4 lanes.
    assert column(rows, "float_mul") == pytest.approx([np.log2(16**3 + 1)])
    assert column(rows, "parallel_prod") == pytest.approx([np.log2(4 + 1)])
    assert column(rows, "vectorize_prod") == pytest.approx([np.log2(4 + 1)])
    assert column(rows, "is_gpu") == [0.0]


def test_different_programs_have_different_features(tiny_matmul: Any) -> None:
    found = extract(module_from_json(tiny_matmul.module_json), tiny_matmul.traces, tiny_matmul.target)

    assert len({rows.tobytes() for rows in found if rows is not None}) == len(tiny_matmul.traces)


def test_a_program_has_the_same_features_alone_and_among_others(tiny_matmul: Any) -> None:
    mod = module_from_json(tiny_matmul.module_json)
    together = extract(mod, tiny_matmul.traces, tiny_matmul.target, threads=2)
    alone = [extract(mod, [trace], tiny_matmul.target)[0] for trace in tiny_matmul.traces]

    assert all(np.array_equal(a, b) for a, b in zip(together, alone, strict=True) if a is not None)


def test_a_trace_that_does_not_replay_costs_only_itself(tiny_matmul: Any) -> None:
    good = tiny_matmul.traces[0]

    traces = [good, tiny_matmul.bad_trace, "not json", "[1]", good]
    found = extract(module_from_json(tiny_matmul.module_json), traces, tiny_matmul.target)

    assert [rows is not None for rows in found] == [True, False, False, False, True]
