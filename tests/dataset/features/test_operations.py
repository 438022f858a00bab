from __future__ import annotations

from costhub.dataset.features.operations import Operations, count_operations


def test_operations_are_counted_by_class_and_indices_are_not() -> None:
    import tvm
    from tvm import te

    a = te.placeholder((8, 8), name="A")
    result = te.compute(
        (8, 8),
        lambda i, j: te.exp(a[i, (j + 1) % 8]) * 2.0 + tvm.tirx.Select(a[i, j] > 0, a[i, j], 0.0) / 3.0,
        name="C",
    )
    statement = te.create_prim_func([a, result]).body
    while type(statement).__name__ != "BufferStore":
        statement = getattr(statement, "block", statement).body

    assert count_operations(statement) == Operations(add_sub=1, mul=1, div_mod=1, compare=2, call=1)


def test_nothing_has_no_operations() -> None:
    assert count_operations(None) == Operations()
