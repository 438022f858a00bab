"""Samplers of users' design spaces: in a child, whose crash costs a few draws and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from costhub.collector.propose.isolated_sampler import (
    IsolatedSampler,
    SamplerSetup,
    check_space,
    open_samplers,
    propose,
)
from costhub.collector.propose.sampler import Program, Sampler, Shares
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.workload import module_to_json
from costhub.errors import CosthubError, UnknownNameError, WorkloadError

RANDOM = Shares(1, 0, 0)
RULES = """
import ctypes, os, pathlib

def crashes(target):
    ctypes.string_at(0)

def crashes_once(target):
    mark = pathlib.Path(os.environ["COSTHUB_TEST_MARK"])
    if not mark.exists():
        mark.touch()
        ctypes.string_at(0)
    from tvm.s_tir import meta_schedule as ms
    return ms.space_generator.PostOrderApply()
"""


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "rules_in_a_child.py").write_text(RULES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("COSTHUB_TEST_MARK", str(tmp_path / "crashed"))
    return "rules_in_a_child"


def test_a_built_in_space_needs_no_child(target: str) -> None:
    with open_samplers("llvm") as make:
        sampler = make(find_workload("softmax.64x1000").module(), target, seed=1)
        assert isinstance(sampler, Sampler)
        assert {p.space for p in sampler.propose(2, parents=(), shares=RANDOM)} == {"llvm"}


@pytest.mark.slow
def test_a_users_space_goes_on_in_a_new_child_after_a_crash(rules: str, target: str) -> None:
    mod = find_workload("softmax.64x1000").module()
    with open_samplers(f"{rules}:crashes_once") as make:
        first, second = (make(mod, target, seed=1) for _ in range(2))
        programs = [p for _ in range(2) for p in first.propose(3, parents=(), shares=RANDOM)]
        others = second.propose(3, parents=(), shares=RANDOM)

    assert isinstance(first, IsolatedSampler)
    assert {p.space for p in programs} == {f"{rules}:crashes_once"}
    # Those of a sampler in this process, with the seed after the one that crashed, and none of them twice.
    assert [p.trace for p in programs] == [p.trace for p in Sampler(mod, target, seed=2).random(6)]
    assert [p.trace for p in others] == [p.trace for p in Sampler(mod, target, seed=1).random(3)]


@pytest.mark.slow
def test_a_space_that_always_crashes_is_given_up_with_a_sentence(rules: str, target: str) -> None:
    with open_samplers(f"{rules}:crashes") as make:
        sampler = make(find_workload("softmax.64x1000").module(), target, seed=1)
        with pytest.raises(WorkloadError, match=r"crashed or hung 2 times .*SIGSEGV"):
            sampler.propose(2, parents=(), shares=RANDOM)


def test_a_wrong_name_is_refused_at_once(rules: str) -> None:
    with pytest.raises(WorkloadError, match="no attribute 'missing'"), open_samplers(f"{rules}:missing"):
        pass
    with pytest.raises(UnknownNameError, match="vnni"), open_samplers("vnnii"):
        pass


def drawn(target: str, *, key: int, space: str = "default", is_new: bool = True) -> list[Program]:
    module_json = module_to_json(find_workload("softmax.64x1000").module())
    setup = SamplerSetup(module_json, target, 3, frozenset(), space) if is_new else None
    return propose(key, setup, 3, parents=(), shares=RANDOM, scorer=None)


def test_it_draws_what_a_sampler_draws_and_goes_on_where_it_was(target: str) -> None:
    programs = [*drawn(target, key=1), *drawn(target, key=1, is_new=False)]

    expected = Sampler(find_workload("softmax.64x1000").module(), target, seed=3).random(6)
    assert [p.program_id for p in programs] == [p.program_id for p in expected]


@pytest.mark.parametrize("space", ["no_such_module:space", "vnnii"])
def test_what_is_wrong_is_a_sentence(space: str, target: str) -> None:
    with pytest.raises(CosthubError, match=space):
        check_space(space)
    with pytest.raises(CosthubError, match=space):
        drawn(target, key=2, space=space)
