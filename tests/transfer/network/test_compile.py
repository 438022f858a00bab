"""A network in one library: the schedules of a database in it, and what torch computes out of it."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from costhub.collector.network_source import read_network
from costhub.collector.sampler import Sampler
from costhub.collector.suite import find_workload
from costhub.dataset.target import parse_target
from costhub.transfer.network.compile import Compiled, _best_of, compile_network
from costhub.transfer.search.database import Records

# torch copies an exported program with a part of itself that it warns of.
pytestmark = pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")


def run(library: Path, value: np.ndarray) -> np.ndarray:
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    return np.asarray(machine["main"](tvm.runtime.tensor(value))[0].numpy())


def test_the_library_holds_weights_and_schedules_and_computes_what_torch_does(
    files: tuple[Path, Path], database: Path, target: str, tmp_path: Path
) -> None:
    import torch

    source = read_network(str(files[0]))
    value = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)

    tuned = compile_network(source, parse_target(target), database, tmp_path / "tuned.so")
    plain = compile_network(source, parse_target(target), None, tmp_path / "plain.so")

    # The convolution and the first dense layer; reshape and the last one are too small for anything, and the
    # pooling for a search.
    assert (tuned, plain) == (Compiled(5, 2, 1), Compiled(5, 0, 0))
    assert source.torch is not None
    with torch.no_grad():
        wanted = source.torch(torch.from_numpy(value)).numpy()
    for name in ("tuned", "plain"):
        np.testing.assert_allclose(run(tmp_path / f"{name}.so", value), wanted, atol=1e-5)


def test_schedules_are_found_whatever_the_weights(
    files: tuple[Path, Path], database: Path, target: str, tmp_path: Path
) -> None:
    found = compile_network(read_network(str(files[1])), parse_target(target), database, tmp_path / "x.so")

    assert found.tuned == 2


def test_a_network_for_another_machine_is_compiled_for_it(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights are made here, where nothing of that machine's runs."""
    linked: list[tuple[str | None, int]] = []

    def link(triple: str | None, objects: Sequence[str], library: str, options: Sequence[str]) -> None:
        heads = [Path(each).read_bytes()[:20] for each in objects]
        linked.extend((triple, *struct.unpack_from("<H", head, 18)) for head in heads)
        Path(library).touch()

    monkeypatch.setattr("costhub.transfer.network.compile.link", link)
    there = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 4}
    compile_network(read_network(str(files[0])), parse_target(json.dumps(there)), None, tmp_path / "there.so")

    assert len(linked) > 1  # the kernels, and the weights
    assert set(linked) == {("aarch64-linux-gnu", 183)}  # EM_AARCH64 of elf.h


def test_the_schedule_of_the_best_median_for_this_target_counts(target: str, tmp_path: Path) -> None:
    from tvm.s_tir import meta_schedule as ms

    from costhub.dataset.trace import replay

    here = parse_target(target)
    elsewhere = parse_target(json.dumps({**json.loads(target), "num-cores": 99}))
    mod, records = find_workload("matmul.128x128x128").module(), Records(tmp_path)
    measured = [([1e-4], elsewhere), ([1e-3, 1e-3, 9e-3], here), ([2e-3] * 3, here), (None, here)]
    programs = Sampler(mod, target, seed=1).random(len(measured))
    for program, (run_s, where) in zip(programs, measured, strict=True):
        info = ms.arg_info.ArgInfo.from_entry_func(mod, True)
        records.add(mod, ms.MeasureCandidate(replay(mod, program.trace), info), run_s, where)

    (found,) = _best_of(tmp_path, here).get_all_tuning_records()

    assert [float(s) for s in found.run_secs] == [1e-3]
