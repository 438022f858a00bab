"""Design spaces: by name, TVM's, the built-in ones and one of the user's own; and the schedules drawn from them."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.collector.propose.sampler import Program, Sampler, open_design_space
from costhub.collector.propose.spaces import DesignSpace, check_name, find_space, space_for, space_names
from costhub.collector.workloads.suites import find_workload
from costhub.errors import UnknownNameError, WorkloadError

PAGE = Path(__file__).parents[3] / "docs" / "spaces.md"
ZEN4 = json.dumps({"kind": "llvm", "mcpu": "znver4", "num-cores": 2})
ARM = json.dumps({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76", "num-cores": 4})


def intrinsics(program: Program) -> set[str]:
    return {i[2][0] for i in json.loads(program.trace)[0] if i[0] == "Tensorize"}


def compiled(program: Program, target: str) -> Any:
    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    mod = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(tvm.ir.load_json(program.module_json))
    return tvm.tirx.build(mod, target=tvm.target.Target(json.loads(target)))


def output(built: Any, path: Path, inputs: list[Any], shape: tuple[int, ...]) -> Any:
    import tvm

    built.export_library(str(path))
    out = tvm.runtime.tensor(np.zeros(shape, inputs[0].dtype if inputs[0].dtype == "float32" else "int32"))
    tvm.runtime.load_module(str(path))["main"](*(tvm.runtime.tensor(a) for a in inputs), out)
    return out.numpy()


@pytest.fixture
def own_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The page's first example, as a module that can be imported."""
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "my_rules.py").write_text("\n".join(code))
    monkeypatch.syspath_prepend(tmp_path)
    return "my_rules"


@pytest.mark.parametrize(("space", "named"), [("default", True), ("vnni", True), ("llvm", False)])
def test_int8_programs_use_vnni_where_the_space_has_it(space: str, named: bool) -> None:
    """TVM's default has the rule for a CPU that has the instruction; ours always builds."""
    programs = Sampler(find_workload("int8.dense-128x768x768").module(), ZEN4, seed=1, space=space).random(4)
    assert {"dot_16x4_vnni" in intrinsics(p) for p in programs} == {named}
    if space == "vnni":
        for program in programs:
            assert "vpdpbusd" in compiled(program, ZEN4).inspect_source("s")


def test_a_vnni_program_runs_and_is_right(target: str, tmp_path: Path) -> None:
    if "avx512_vnni" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this CPU has no AVX512-VNNI")
    workload = find_workload("int8.dense-128x768x768")
    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, (128, 768)).astype("uint8")
    weight = rng.integers(-128, 128, (48, 192, 16, 4)).astype("int8")
    expected = data.astype("int32") @ weight.transpose(1, 3, 0, 2).reshape(768, 768).astype("int32")

    for number, program in enumerate(Sampler(workload.module(), target, seed=2, space="vnni").random(3)):
        built = compiled(program, target)
        assert "vpdpbusd" in built.inspect_source("s")
        out = output(built, tmp_path / f"{number}.so", [data, weight], (128, 768))
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pools_have_the_default_rules_without_a_warning(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    import tvm
    from tvm import topi

    x = tvm.te.placeholder((1, 8, 16, 16), name="x")
    asked = topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), kind)
    mod = tvm.IRModule({"main": tvm.te.create_prim_func([x, asked])})
    assert f'"meta_schedule.pool_{kind}"' in mod.script()

    _, sketches = open_design_space(mod, ZEN4, find_space("default"), 0)

    assert len(sketches) > 1, "the default rules"
    assert all("unannotate" in str(sketch.trace) for sketch in sketches)
    assert "Unknown schedule rule" not in capfd.readouterr().err


def test_other_dot_products_are_spaces_of_their_own() -> None:
    mod = find_workload("int8.dense-128x768x768").module()
    assert intrinsics(Sampler(mod, ZEN4, seed=1, space="avx512-dot").random(1)[0]) == {"dot_16x4_avx512"}
    # ARM's are of signed bytes only: the space is there, and leaves this workload to the other rules.
    assert intrinsics(Sampler(mod, ARM, seed=1, space="sdot").random(1)[0]) == set()


def test_a_space_of_another_kind_of_target_is_refused(target: str) -> None:
    with pytest.raises(WorkloadError, match="for cuda targets, but this one is of kind llvm"):
        Sampler(find_workload("softmax.64x1000").module(), target, seed=0, space="tensor-core")


def test_a_kind_of_target_is_refused_before_there_is_one() -> None:
    for name, kind in (("vnni", "llvm"), ("cuda", "cuda"), ("default", "cuda")):
        find_space(name).check_kind(kind)
    with pytest.raises(
        WorkloadError, match="'vnni' is for llvm targets, but this one is of kind cuda: name another one"
    ):
        find_space("vnni").check_kind("cuda")


def test_what_is_asked_for_comes_before_what_costhub_would_choose(own_rules: str) -> None:
    mod = find_workload("matmul.128x128x128").module()

    assert [space_for(mod, asked).name for asked in (None, "blocked", f"{own_rules}:simple")] == [
        "default",
        "blocked",
        "my_rules:simple",
    ]
    with pytest.raises(UnknownNameError, match="Did you mean blocked"):
        space_for(mod, "blokced")


def test_a_name_is_checked_without_an_import() -> None:
    check_name("neon-dot")
    check_name("no_such_module:space")
    with pytest.raises(UnknownNameError, match="Did you mean neon-dot"):
        check_name("neondot")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean vnni\?"):
        find_space("vnnii")
    *others, last = space_names()
    with pytest.raises(UnknownNameError, match=f"{', '.join(others)} (and|or) {last}"):
        find_space("!")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module:space", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("my_rules:no_such_function", "has no attribute 'no_such_function'"),
        ("my_rules:ms", "is a module, not a function"),
    ],
)
def test_a_users_name_that_leads_nowhere_is_refused(name: str, said: str, own_rules: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        find_space(name)


def test_a_function_that_gives_no_space_is_refused(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rules_of_nothing.py").write_text("def space(target):\n    return 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(WorkloadError, match="returned a int; its function must return a TVM SpaceGenerator"):
        Sampler(find_workload("softmax.64x1000").module(), target, seed=0, space="rules_of_nothing:space")


@pytest.mark.parametrize("function", ["space", "simple"])
def test_the_pages_own_rules_give_programs_that_are_right(
    function: str, own_rules: str, target: str, tmp_path: Path
) -> None:
    mod = find_workload("matmul.128x128x128").module()
    sampler = Sampler(mod, target, seed=1, space=f"{own_rules}:{function}")
    assert sampler._preview is None, "own rules may tile what another tile has made"
    programs = sampler.random(3)
    assert {p.space for p in programs} == {f"my_rules:{function}"}

    rng = np.random.default_rng(0)
    a, b = (rng.random((128, 128), np.float32) for _ in range(2))
    for number, program in enumerate(programs):
        assert '"parallel"' in program.module_json or "Parallel" in program.trace
        out = output(compiled(program, target), tmp_path / f"{number}.so", [a, b], (128, 128))
        np.testing.assert_allclose(out, a @ b, rtol=1e-4)


@pytest.fixture(scope="module")
def space_design(target: str) -> tuple[Any, list[Any]]:
    return open_design_space(find_workload("matmul.128x128x128").module(), target, find_space("default"), 0)


@pytest.fixture(scope="module")
def design(space_design: tuple[Any, list[Any]]) -> DesignSpace:
    return DesignSpace(*space_design)


def structure(schedule: Any) -> int:
    import tvm_ffi

    return int(tvm_ffi.structural_hash(schedule.mod))


def drawn(design: DesignSpace, seed: int) -> Any:
    return design.finish(design.random(np.random.default_rng(seed)), seed)


def test_threads_make_the_schedules_that_one_makes(design: DesignSpace) -> None:
    alone = [structure(drawn(design, seed)) for seed in range(1, 9)]
    with ThreadPoolExecutor(3) as pool:
        together = [structure(s) for s in pool.map(partial(drawn, design), range(1, 9))]

    assert together == alone
    assert len(set(alone)) > 4


def test_a_mutated_trace_can_be_replayed(design: DesignSpace) -> None:
    parent = drawn(design, 1)
    changed = 0
    for seed in range(1, 9):
        rng = np.random.default_rng(seed)
        child = design.finish(design.mutated(parent.trace, rng, most=1), seed)
        changed += child is not None and structure(child) != structure(parent)

    assert changed >= 4


def test_what_a_stranger_raises_comes_out(design: DesignSpace) -> None:
    class Broken:
        def apply_to_schedule(self, schedule: Any, remove_postproc: bool) -> None:
            raise ValueError("no such tile")

    with pytest.raises(ValueError, match="no such tile"):
        design.finish(Broken(), 1)


def test_a_space_without_mutators_says_so(space_design: tuple[Any, list[Any]]) -> None:
    class Bare:
        mod = space_design[0].mod

        class space_generator:  # noqa: N801
            mutator_probs = None
            postprocs = None

    assert not DesignSpace(Bare(), space_design[1]).mutates
