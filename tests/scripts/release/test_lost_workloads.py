from __future__ import annotations

import gzip
import json
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from click.testing import CliRunner
from tvm import te, topi
from tvm.topi.nn import winograd_util

from costhub.dataset.metaschedule.import_pool import ReplayedTrace
from costhub.dataset.metaschedule.lines import parse_record
from costhub.dataset.metaschedule.translate import read_workload
from costhub.dataset.trace import trace_to_json
from costhub.dataset.workload import count_flop
from scripts.release.fused_operators import candidates
from scripts.release.lost_workloads import (
    MEASURED_BY,
    LoggedTask,
    block_names,
    choose,
    is_same,
    main,
    parsed,
    read_lost,
    rebuild,
    workload_line,
    written_templates,
)

POOL = frozenset({"pad_temp", "pool_max"})
MATMUL = frozenset({"T_matmul_NT", "T_add"})
MATMUL_SHAPES = [(1, 16), (8, 16), (1, 8), (1, 8)]


def schedule(mod: Any, split: int) -> Any:
    made = tvm.s_tir.Schedule(mod)
    block = made.get_sblock("T_matmul_NT")
    made.get_sblock("T_add")
    loop = made.get_loops(block)[1]
    factors = made.sample_perfect_tile(loop, n=2, decision=[8 // split, split])
    made.split(loop, factors)
    return made


def record(made: Any, shapes: list[tuple[int, ...]], workload: int = 0) -> str:
    trace = json.loads(trace_to_json(made.trace))
    target = {"kind": "llvm", "num-cores": 2}
    return json.dumps([workload, [trace, [1e-3], target, [["TENSOR", "float32", list(s)] for s in shapes]]])


def only(blocks: frozenset[str], shapes: list[tuple[int, ...]]) -> Any:
    [text] = candidates(blocks, shapes)
    return parsed(text)


def run(mod: Any, *arrays: Any) -> Any:
    shape = [int(extent) for extent in mod["main"].params[-1].shape]
    out = tvm.runtime.tensor(np.zeros(shape, "float32"))
    tvm.compile(mod, target={"kind": "llvm"})(*map(tvm.runtime.tensor, arrays), out)
    return out.numpy()


def test_concatenations_of_four_are_as_topi_writes_them() -> None:
    shapes = [(1, n, 2, 2) for n in (2, 3, 1, 4)] + [(1, 10, 2, 2)]
    parts = [
        te.placeholder([tvm.tirx.IntImm("int64", extent) for extent in shape], name=f"p{number}")
        for number, shape in enumerate(shapes[:-1])
    ]
    function = te.create_prim_func([*parts, topi.concatenate(parts, axis=1)])

    theirs = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})

    mod = only(frozenset({"T_concat"}), shapes)
    assert mod.script(show_meta=False) == theirs.script(show_meta=False)


@pytest.mark.parametrize(("extent", "alpha"), [(8, 4), (8, 6)])
def test_winograd_computes_a_convolution(extent: int, alpha: int) -> None:
    blocks = frozenset({"data_pack", "bgemm", "inverse", "conv2d_winograd", "T_add", "T_relu"})
    shapes = [(1, 3, extent, extent), (alpha, alpha, 3, 4), (1, 4, 1, 1), (1, 4, extent, extent)]
    points = winograd_util._interpolation_points(alpha - 1)
    transform = winograd_util._cook_toom_convolution(points, alpha - 2, 3)[2]
    rng = np.random.default_rng(0)
    data, weights, bias = (rng.uniform(-1, 1, s).astype("float32") for s in (shapes[0], (4, 3, 3, 3), shapes[2]))
    packed = np.einsum("ia,jb,ocab->ijco", transform, transform, weights).astype("float32")

    out = run(only(blocks, shapes), data, packed, bias)

    wanted = torch.relu(
        torch.conv2d(torch.from_numpy(data), torch.from_numpy(weights), padding=1) + torch.from_numpy(bias)
    ).numpy()
    assert np.abs(out - wanted).max() < 1e-4


def test_blocks_that_nobody_knows_have_no_module() -> None:
    assert candidates(frozenset({"T_take", "T_concat"}), [(1,), (1,)]) == []


@pytest.mark.slow
def test_a_pool_that_shapes_leave_open_rounds_as_the_other_pools_of_its_network() -> None:
    def pools(kernel: int, *shapes: tuple[int, ...]) -> list[Any]:
        mods = [parsed(text) for text in candidates(POOL, list(shapes))]
        return [mod for mod in mods if count_flop(mod) == kernel**2 * shapes[1][-1] ** 2]

    # A margin of one on both sides, or of one on the far side; and two pools that can only be one of these.
    far, both = pools(3, (1, 1, 8, 8), (1, 1, 4, 4))
    [down], [up] = pools(3, (1, 1, 7, 7), (1, 1, 7, 7)), pools(2, (1, 1, 14, 14), (1, 1, 7, 7))

    assert choose({0: [both, far], 1: [down]})[0].same_as(both)
    assert choose({0: [both, far], 1: [down], 2: [up]})[0].same_as(far)


@pytest.mark.slow
def test_a_workload_is_rebuilt_from_its_records(tmp_path: Path) -> None:
    mod = only(MATMUL, MATMUL_SHAPES)
    (tmp_path / "records.json").write_text(record(schedule(mod, 2), MATMUL_SHAPES) + "\nnot a record\n")
    (tmp_path / "templates.json").write_text(workload_line(only(MATMUL, [(1, 4), (2, 4), (1, 2), (1, 2)])) + "\n")

    [lost] = read_lost(tmp_path / "records.json")
    templates = written_templates([tmp_path / "templates.json"])
    task = LoggedTask("fused_nn_dense_add", count_flop(mod), 1)

    assert templates == Counter({(MATMUL, True): 1})
    [found] = rebuild(lost, task, templates)
    assert found.script() == mod.script()


@pytest.mark.parametrize(
    ("flop", "templates", "why"),
    [
        (1.0, Counter({(MATMUL, True): 1}), "no module of its blocks and shapes has the operations"),
        (264.0, Counter(), "no network of the same TVM has its blocks"),
        (264.0, Counter({(MATMUL, True): 4, (MATMUL, False): 1}), "no network of the same TVM has its blocks"),
    ],
)
def test_what_cannot_be_proved_is_not_rebuilt(tmp_path: Path, flop: float, templates: Counter[Any], why: str) -> None:
    (tmp_path / "r.json").write_text(record(schedule(only(MATMUL, MATMUL_SHAPES), 2), MATMUL_SHAPES))
    [lost] = read_lost(tmp_path / "r.json")

    found = rebuild(lost, LoggedTask("a", flop, 1), templates)

    assert isinstance(found, str)
    assert found.startswith(why)


def test_records_that_disagree_are_not_rebuilt(tmp_path: Path) -> None:
    made = schedule(only(MATMUL, MATMUL_SHAPES), 2)
    other = [(1, 4), (8, 4), (1, 8), (1, 8)]
    (tmp_path / "r.json").write_text(f"{record(made, MATMUL_SHAPES)}\n{record(made, other)}\n")
    [lost] = read_lost(tmp_path / "r.json")

    assert (
        rebuild(lost, LoggedTask("a", 1, 1), Counter({(MATMUL, True): 1}))
        == "its records differ in blocks or arguments"
    )


def test_a_trace_that_tvm_fitted_to_other_extents_is_not_the_same() -> None:
    recorded = trace_to_json(schedule(only(MATMUL, MATMUL_SHAPES), 4).trace)
    wrong = only(MATMUL, [(1, 16), (6, 16), (1, 6), (1, 6)])
    fitted = tvm.s_tir.Schedule(wrong)
    from tvm.s_tir.schedule import Trace

    Trace.apply_json_to_schedule(json.loads(recorded), fitted)

    assert is_same(recorded, ReplayedTrace(recorded, False))
    assert not is_same(recorded, ReplayedTrace(recorded, True))
    assert not is_same(recorded, ReplayedTrace(trace_to_json(fitted.trace), False))


def test_the_command_writes_a_database_with_numbers_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mod = only(MATMUL, MATMUL_SHAPES)
    lines = [record(schedule(mod, 2), MATMUL_SHAPES, 1), record(schedule(mod, 4), MATMUL_SHAPES, 1)]
    strange = json.loads(record(schedule(mod, 2), MATMUL_SHAPES))
    strange[1][0][0][0][2][0] = "unheard"
    (tmp_path / "records.json.gz").write_bytes(gzip.compress("\n".join([json.dumps(strange), *lines]).encode()))
    # The importer reads from it which TVM made the latencies.
    assert read_workload(workload_line(mod).encode())[1] == MEASURED_BY == "0.16.dev0"
    (tmp_path / "t.json.xz").write_bytes(lzma.compress(workload_line(mod).encode()))
    (tmp_path / "log").write_text(f"  0 | odd |   7 |  1 | N/A\n  1 | dense |  {count_flop(mod):.0f} |  3 | N/A\n")
    words = [
        str(tmp_path / "records.json.gz"),
        "--template",
        str(tmp_path / "t.json.xz"),
        "--log",
        str(tmp_path / "log"),
    ]

    last = ["--workers", "1", "--json", str(tmp_path / "result.json")]

    done = CliRunner().invoke(main, [*words, "--network", "net", "--out", str(tmp_path / "out"), *last])

    assert done.exit_code == 0, done.output
    first, second = (tmp_path / "out/database_workload.json").read_bytes().splitlines()
    assert json.loads(first) == ["0", ""]
    assert read_workload(second)[0].script() == mod.script()
    names = json.loads((tmp_path / "out/names.json").read_text())
    assert names == [None, {"name": "net_dense", "networks": {"net": 3.0}}]
    result = json.loads((tmp_path / "result.json").read_text())
    assert [row["operator"] for row in result["operators"]] == ["matmul", "other"]
    assert [(row["workloads"], row["kept"]) for row in result["operators"]] == [(1, 1), (1, 0)]
    assert [row["name"] for row in result["left_out"]] == ["odd"]
    assert (result["templates_alike"], result["templates_other"]) == (1, 0)
    rows = json.loads((tmp_path / "out/rebuilt.json").read_text())["workloads"]
    assert [(row["same"], row["traces"], bool(row["why"])) for row in rows] == [(0, 1, True), (2, 2, False)]
    assert parse_record(gzip.decompress((tmp_path / "out/database_tuning_record.json.gz").read_bytes()).splitlines()[1])


def test_blocks_of_post_processing_do_not_count() -> None:
    trace = [
        ["GetBlock", [], ["C", "main"], ["b0"]],
        ["EnterPostproc", [], [], []],
        ["GetBlock", [], ["D", "main"], ["b1"]],
    ]

    assert block_names(json.dumps([trace, []])) == {"C"}
