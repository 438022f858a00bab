"""The target of this machine is one that TVM's CPU rules accept."""

import pytest

from costhub.collector.target import local_target
from costhub.errors import DeviceError


def test_the_target_names_cpu_and_cores() -> None:
    import tvm

    target = local_target()
    assert tvm.target.Target(target).kind.name == "llvm"
    assert target["num-cores"] >= 1
    assert target["mcpu"]


def test_a_device_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(DeviceError, match="opencl"):
        local_target("opencl")
