"""Each engine loads a small network, computes what torch does, and says where its time goes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from costhub.collector.workloads.kernel_extraction import KernelBounds, extract_kernels
from costhub.collector.workloads.network_source import BF16, BLOCKED, FLOAT32, Lowering
from costhub.search.whole_network.engines import openvino_precision
from costhub.search.whole_network.network_timer import NetworkTimer
from scripts.bench.__main__ import commands
from scripts.bench.common.fresh import checkout_path
from scripts.bench.engines.causes import ATTENTION, PASSES, without
from scripts.bench.engines.compare import NetworkRows, Settings
from scripts.bench.engines.export import ExportedNetwork, export_network
from scripts.bench.engines.forms import ENGINES, environment, load_engine, load_tuned, relative_error
from scripts.bench.engines.kinds import ELEMENTWISE, OVERHEAD
from scripts.bench.engines.profiles import PROFILERS, in_child, profile_engine, profile_tuned
from scripts.bench.engines.search import (
    COURSE,
    NetworkCourse,
    compile_tuned,
    count_flops,
    read_course,
    search_folder,
    search_network,
)

THREADS, LOWERING = 1, Lowering(fast_math=True)


@pytest.fixture(scope="module", autouse=True)
def _path() -> Iterator[None]:
    """Children import the scripts of this checkout."""
    before = dict(os.environ)
    os.environ |= checkout_path()
    yield
    os.environ.clear()
    os.environ |= before


@pytest.fixture(scope="module")
def network(_path: None, tmp_path_factory: pytest.TempPathFactory) -> ExportedNetwork:
    return export_network("bert_tiny", tmp_path_factory.mktemp("export") / "bert_tiny")


@pytest.mark.slow
@pytest.mark.parametrize("engine", list(ENGINES))
def test_an_engine_computes_what_torch_does(network: ExportedNetwork, engine: str) -> None:
    if not ENGINES[engine].is_installed:
        pytest.skip(f"{ENGINES[engine].package} is not installed")

    with NetworkTimer(network.inputs, THREADS) as timer:
        reference = timer.load_form("torch", partial(load_engine, "torch", network, THREADS), environment(THREADS))
        found = timer.load_form("it", partial(load_engine, engine, network, THREADS), environment(THREADS))
        assert set(timer.measure(rounds=1, seconds=0.0)) == {"torch", "it"}

    assert relative_error(found, reference) < (1e-5 if ENGINES[engine].precision else 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("engine", list(ENGINES))
def test_a_profile_names_the_dense_layers(network: ExportedNetwork, engine: str) -> None:
    if not ENGINES[engine].is_installed:
        pytest.skip(f"{ENGINES[engine].package} is not installed")

    found = in_child(partial(profile_engine, engine, network, THREADS), THREADS)

    assert sum(kernel["calls"] for kernel in found["kernels"] if kernel["kind"] == "matmul") >= 12
    assert sum(found["kinds"].values()) == pytest.approx(found["whole_us"])


@pytest.mark.slow
def test_openvino_says_what_it_computes_in(network: ExportedNetwork) -> None:
    pytest.importorskip("openvino")

    assert openvino_precision(str(network.onnx), network.inputs, THREADS) in {"float32", "bfloat16", "float16"}


@pytest.mark.slow
def test_a_search_goes_on_and_is_not_done_twice(network: ExportedNetwork, tmp_path: Path) -> None:
    folder, library = tmp_path / "search", tmp_path / "tuned.so"
    folder.mkdir()
    (folder / COURSE).write_text('{"trials": 0, "kernels": 1, "seconds": 1000.0}')  # of an interrupted run

    course = search_network(network.program, folder, trials=1, threads=THREADS, lowering=LOWERING)
    records = (folder / "database_tuning_record.json").read_text()
    again = search_network(network.program, folder, trials=1, threads=THREADS, lowering=LOWERING)
    compiled = compile_tuned(network.program, folder, library, threads=THREADS, lowering=LOWERING)
    flop = count_flops(network.program, threads=THREADS, lowering=LOWERING)
    found = in_child(partial(profile_tuned, str(library), network.inputs, THREADS, compiled.names, flop), THREADS)

    assert course.trials == 1
    assert course.seconds > 1000.0
    assert (again, (folder / "database_tuning_record.json").read_text()) == (course, records)
    assert compiled.tuned == len(compiled.names) > 0
    # The pooler's product is too small for a search.
    assert True in {kernel["tuned"] for kernel in found["kernels"] if kernel["kind"] == "matmul"}
    assert found["kinds"][OVERHEAD] < found["whole_us"]
    # A product has its own operations only; the library has the other kernels that were counted, under the same names.
    flops = {kernel["title"]: kernel["flop"] for kernel in found["kernels"]}
    assert flops["matmul, 128 x 512 x 128"] == 2 * 128 * 512 * 128
    others = {each["name"]: each["flop"] for each in found["kernels"] if each["kind"] == ELEMENTWISE}
    assert set(compiled.names) <= set(flop)
    assert others == {name: flop[name] for name in others} != {}


@pytest.mark.slow
def test_a_row_has_the_seconds_until_its_engine_runs(network: ExportedNetwork, tmp_path: Path) -> None:
    settings = Settings(
        trials=1, stock=0, threads=THREADS, lowerings=(), rounds=1, profile=False, engines=(), searches=tmp_path
    )
    with NetworkTimer(network.inputs, THREADS) as timer:
        rows = NetworkRows(network, settings, timer)
        rows.add("torch", "float32", partial(load_engine, "torch", network, THREADS))
        rows.add("costhub", "float32", partial(load_tuned, "missing.so", network.inputs, THREADS))
        searched = search_folder(tmp_path, network.name, "costhub", LOWERING)
        searched.mkdir()
        (searched / COURSE).write_text('{"trials": 1, "kernels": 1, "seconds": 5.0}')  # of a finished search
        rows.add_tuned("costhub", 1, LOWERING)
        assert list(timer.measure(rounds=1, seconds=0.0)) == ["torch", "costhub"]

    ready, missing, tuned = rows.rows
    assert (ready["error"], ready["ready_s"] > 0.0) == (None, True)
    assert missing["error"]
    assert "ready_s" not in missing
    assert (tuned["error"], tuned["seconds"]) == (None, 5.0)
    assert min(tuned[key] for key in ("reading_s", "compile_s", "ready_s", "ready_without_torch_s")) > 0.0
    assert rows.flop["costhub"]


def test_a_course_is_read_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / COURSE).write_text('{"trials": 8, "kernels": 3, "seconds": 2.5}')

    assert read_course(tmp_path) == NetworkCourse(8, 3, 2.5)
    assert read_course(tmp_path / "missing").trials == 0


def test_every_engine_has_a_profiler() -> None:
    assert set(PROFILERS) == set(ENGINES)


def test_the_error_is_relative_to_each_output() -> None:
    large, small = np.array([100.0, 1.0]), np.array([0.001])

    assert relative_error([large, small * 1.5], [large, small]) == pytest.approx(0.5)
    assert relative_error([np.ones(1)], [np.zeros(1)]) == float("inf")
    assert relative_error([large], [large]) == 0.0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["engines", "--threads", "999"], "all cores"),
        (["engines", "--network", "resnet19"], "resnet18"),
        (["engines", "--engine", "tflite"], "torch"),
        (["parts", "--part", "attention-in-bfloat16"], "needs --precision bf16"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(words: list[str], told: str) -> None:
    done = CliRunner().invoke(commands, words)

    assert done.exit_code in (1, 2)
    assert told in done.output


@pytest.mark.slow
@pytest.mark.parametrize("part", PASSES)
def test_without_a_pass_a_network_has_other_kernels(part: str) -> None:
    mcpu, precision = ("sapphirerapids", BF16) if part == ATTENTION else ("haswell", FLOAT32)
    lowering = Lowering(fast_math=True, layout=BLOCKED, precision=precision)
    target = json.dumps({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": mcpu, "num-cores": 1})

    def kernels() -> set[str]:
        found = extract_kernels("bert_tiny", target, KernelBounds(0.0, 0.0, 2.0**28), lowering)
        return {kernel.workload_id for kernel in found.tasks}

    with without(part):
        changed = kernels()

    assert kernels() - changed
    assert changed - kernels()
