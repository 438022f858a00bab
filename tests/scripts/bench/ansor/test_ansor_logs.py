from __future__ import annotations

from pathlib import Path

from scripts.bench.ansor.ansor_logs import operators, spread
from tests.dataset.ansor.ansor_steps import MATMUL, record


def test_records_are_counted_by_function_and_by_type_where_a_key_has_one(tmp_path: Path) -> None:
    keys = [MATMUL, '["matmul", 4, 8, 2, "float16"]', '["matmul", 4, 8, 2, "float32"]', '["pool_layer", 4, 8, "SAME"]']
    (tmp_path / "a.json").write_bytes(b"\n".join(record(key, []) for key in (*keys, keys[1])) + b"\n")

    by_operator = operators(tmp_path / "a.json")

    counts = {operator: len(lines) for operator, lines in by_operator.items()}
    assert counts == {"matmul_layer": 1, "matmul float16": 2, "matmul float32": 1, "pool_layer": 1}
    assert [*spread(by_operator, 9)] == [record(key, []) for key in (keys[0], keys[1], keys[1], keys[2])]
