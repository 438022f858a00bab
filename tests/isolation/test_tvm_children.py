"""Children in which TVM reads what strangers wrote."""

from __future__ import annotations

import os
from importlib.util import find_spec

from costhub.isolation.limits import FOR_STRANGERS, Limits
from costhub.isolation.tvm_children import tvm_child, tvm_pool


def test_a_child_has_what_it_is_given_but_no_torch() -> None:
    with tvm_child(environment={"COSTHUB_TEST_VARIABLE": "given"}) as child:
        assert child.call(find_spec, "torch", timeout_s=60) is None
        assert child.call(os.getenv, "COSTHUB_TEST_VARIABLE", timeout_s=60) == "given"


def test_a_child_of_the_pool_has_no_torch() -> None:
    with tvm_pool(1) as pool:
        assert pool.call(find_spec, "torch") is None


def test_both_are_limited() -> None:
    with tvm_child() as child, tvm_child(limits=Limits(cpu_s=5.0)) as other, tvm_pool(1) as pool:
        assert (child.limits, other.limits) == (FOR_STRANGERS, Limits(cpu_s=5.0))
        with pool.child() as member:
            assert member.limits == FOR_STRANGERS.among(1)
