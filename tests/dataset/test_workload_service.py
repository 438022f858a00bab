from __future__ import annotations

from typing import Any

from costhub.dataset.workload_service import handle, hash_modules


def test_a_module_is_named_by_its_hash(tiny_matmul: Any) -> None:
    assert handle(tiny_matmul.module_json) == tiny_matmul.workload_id


def test_a_module_that_tvm_cannot_read_has_no_hash() -> None:
    assert handle("{}") is None


def test_many_modules_are_hashed_in_a_child_process(tiny_matmul: Any) -> None:
    found = hash_modules([tiny_matmul.module_json, "not json", tiny_matmul.module_json])

    assert found == [tiny_matmul.workload_id, None, tiny_matmul.workload_id]


def test_no_modules_need_no_child_process() -> None:
    assert hash_modules([]) == []
