"""The sample service, called as its child calls it: programs, or a sentence."""

from __future__ import annotations

import pytest

from costhub.collector.sample_service import SampleRequest, Setup, handle
from costhub.collector.sampler import Sampler
from costhub.collector.shares import Shares
from costhub.collector.suite import find_workload
from costhub.dataset.workload import module_to_json


def request(target: str, *, key: int, space: str = "default", setup: bool = True) -> SampleRequest:
    module_json = module_to_json(find_workload("softmax.64x1000").module())
    made = Setup(module_json, target, 3, frozenset(), space) if setup else None
    return SampleRequest(key, made, 3, (), Shares(1, 0, 0), None)


def test_it_draws_what_a_sampler_draws_and_goes_on_where_it_was(target: str) -> None:
    replies = [handle(request(target, key=1)), handle(request(target, key=1, setup=False))]

    expected = Sampler(find_workload("softmax.64x1000").module(), target, seed=3).random(6)
    drawn = [program for reply in replies if not isinstance(reply, str) for program in reply]
    assert [p.program_id for p in drawn] == [p.program_id for p in expected]


def test_a_name_is_looked_up_only() -> None:
    assert handle("vnni") == []


@pytest.mark.parametrize("space", ["no_such_module:space", "vnnii"])
def test_what_is_wrong_comes_back_as_a_sentence(space: str, target: str) -> None:
    for reply in (handle(space), handle(request(target, key=2, space=space))):
        assert isinstance(reply, str)
        assert space in reply
