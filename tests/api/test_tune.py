"""`costhub.tune`: from names, files and objects of torch and TVM to a search, its results and a library."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from costhub.api import tune as tune_module
from costhub.api.measuring import BoardsAt
from costhub.api.models import ChosenModel, advise, load_model
from costhub.api.subjects import read_subjects
from costhub.api.tune import TuneOptions, obstacle, tune
from costhub.collector.device.identity import identify
from costhub.collector.device.local import local_names, local_target
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.workload import workload_id
from costhub.errors import ArgumentError, CosthubError, DataError, MeasureError, NetworkError, WorkloadError
from costhub.hub.catalogue.devices import keep_probed_figures
from costhub.isolation.child import Child
from costhub.search.database import FILES, SearchFolder
from costhub.search.options import Search
from costhub.search.result import StageTimer
from costhub.search.whole_network import engines, finish
from costhub.search.whole_network.tuned_network import TunedNetwork
from tests.relax_networks import two_layers


def test_the_folder_of_a_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")

    with pytest.raises(ArgumentError, match="is the folder of a model"):
        tune("matmul.256x256x256", tmp_path, trials=4)


def test_a_search_is_for_one_device(tmp_path: Path) -> None:
    names = list(local_names())[:2]

    with pytest.raises(ArgumentError, match="A search is for exactly one device, and 2 were given"):
        tune("matmul.256x256x256", tmp_path / "t", trials=4, device=names)  # type: ignore[arg-type]
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("reason", ["model", "device", "report"])
def test_a_network_in_memory_is_not_written_where_the_search_is_refused(reason: str, tmp_path: Path) -> None:
    held = {"model": "config.json", "report": "report.json"}.get(reason)
    if held:
        (tmp_path / held).write_text("{}")
    before = sorted(tmp_path.iterdir())

    with pytest.raises(CosthubError):
        tune(two_layers(2), tmp_path, trials=4, device="no-such-device" if reason == "device" else "auto")
    assert sorted(tmp_path.iterdir()) == before


def test_networks_are_not_compiled_where_that_cannot_be_done() -> None:
    def why_not(**measurer: Any) -> str | None:
        return obstacle(SimpleNamespace(**measurer))  # type: ignore[arg-type]

    here, foreign = {"mtriple": local_target()["mtriple"]}, {"mtriple": "vax-dec-ultrix"}
    assert why_not(device={"kind": "cpu"}, target=here, boards=None) is None
    assert why_not(device={"kind": "cpu"}, target=here, boards="some") is None
    assert why_not(device={"kind": "cuda"}, target={}, boards=None) is None
    assert "possible for CPUs only" in (why_not(device={"kind": "cuda"}, target={}, boards="some") or "")
    assert "No linker for vax-dec-ultrix" in (why_not(device={"kind": "cpu"}, target=foreign, boards="some") or "")


def advice(model: ChosenModel, row: dict[str, Any], boards: Any = None) -> list[str]:
    return advise(model, SimpleNamespace(device=row, boards=boards))  # type: ignore[arg-type]


def test_an_unprobed_device_is_told_how_to_get_figures_and_a_model(tmp_path: Path) -> None:
    arm = {"isa_features": ["neon"], "simd_bits": 128}
    row = {**identify(threads=1), "device_id": "acme-desk-1c", **arm}
    model = ChosenModel(SimpleNamespace(), "a", "b", ("any-cpu", "amd-epyc-zen5-2c"))  # type: ignore[arg-type]

    unprobed, without_model = advice(model, row)
    x86 = {**row, "isa_features": ["sse4_2", "avx512f"], "simd_bits": 512}
    _, of_other_cpus = advice(model, x86)
    keep_probed_figures({**row, "peak_gflops": 10.0})

    assert unprobed.startswith("acme-desk-1c has not been probed, so models that use a device's figures get the")
    assert "run `costhub probe` (25 s) once" in unprobed
    assert without_model.startswith(
        "No model here has learned from acme-desk-1c or its instruction set: `costhub adapt"
    )
    assert "`costhub adapt auto --device acme-desk-1c --out my-model/`" in without_model
    assert advice(model, row) == [without_model]
    assert of_other_cpus.startswith(
        "This model has learned from other CPUs with acme-desk-1c's instruction set; a model for it"
    )
    assert "`costhub adapt auto --device acme-desk-1c --out my-model/`, then `costhub tune" in of_other_cpus
    assert advice(model, x86) == []
    assert advice(model, row, boards="some") == []
    assert advice(model, {**row, "device_id": "amd-epyc-zen5-2c"}) == []
    assert advice(ChosenModel(SimpleNamespace(), "mine", ""), row) == []  # type: ignore[arg-type]


def test_a_model_of_another_part_of_this_machine_is_told_apart() -> None:
    part, whole = (str(identify(**limits)["device_id"]) for limits in ({"isa": "sse4.2", "threads": 1}, {}))
    model = ChosenModel(SimpleNamespace(), "mine", "", (part,))  # type: ignore[arg-type]

    told = " ".join(advice(model, identify()))

    assert f"mine is a model for {part}, a part of this machine, and this search is for {whole}" in told
    assert f"`--device {part}`" in told
    assert "No model here" not in told


@pytest.mark.parametrize(
    ("row", "command"),
    [
        (identify(isa="sse4.2", threads=1), "`costhub probe --isa sse4.2 --threads 1`"),
        ({"device_id": "nvidia-x9", "kind": "cuda"}, "`costhub probe --kind cuda`"),
    ],
)
def test_the_probe_that_is_advised_is_of_the_device_itself(
    row: dict[str, Any], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costhub.hub.catalogue.devices.find_device", lambda _: None)

    assert command in advice(ChosenModel(SimpleNamespace(), "a", "b", ("any",)), row)[0]  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSTHUB_CACHE", str(tmp_path / "cache"))


ON_A_GPU = SimpleNamespace(boards=None, device={"kind": "cuda"})
ON_BOARDS = SimpleNamespace(boards="some", device={"kind": "cpu"})


@pytest.mark.parametrize(
    ("what", "device", "why"),
    [
        ("matmul.128x128x128", "auto", "times whole networks, and no network is named"),
        ("mine.json", "auto", r"needs a network that torch can export, and \S*mine.json is a relax module"),
        (["lstm", "mine.json"], "auto", r"mine.json is a relax module"),
        ("lstm", "cuda", "times networks on CPUs, and this one is for a GPU"),
        ("lstm", ON_A_GPU, "times networks on CPUs, and this one is for a GPU"),
        ("lstm", BoardsAt("127.0.0.1:1", "nobody"), "times networks on this machine, and this one is for boards"),
        ("lstm", ON_BOARDS, "times networks on this machine, and this one is for boards"),
    ],
)
def test_engines_are_refused_where_no_network_could_run_in_them(
    what: Any, device: Any, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda _: "here")
    monkeypatch.chdir(tmp_path)
    Path("mine.json").write_text('{"type": "relax.expr.Function", "nodes": []}')

    with pytest.raises(ArgumentError, match=rf"^--beside \(beside= in Python\) .*{why}: leave it out\.$"):
        tune(what, tmp_path / "tuned", trials=4, device=device, options=TuneOptions(beside=("onnxruntime",)))

    assert not (tmp_path / "tuned").exists()


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("matmul.128x128x128", "times whole networks, and no network is named"),
        ("mine.json", r"needs a network that torch can export, and \S*mine.json is a relax module"),
    ],
)
def test_torch_compile_is_refused_where_it_would_do_nothing(
    what: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.json").write_text('{"type": "relax.expr.Function", "nodes": []}')

    with pytest.raises(ArgumentError, match=rf"^--torch-compile \(torch_compile= in Python\) {why}: leave it out\.$"):
        tune(what, tmp_path / "tuned", trials=4, options=TuneOptions(torch_compile=True))
    both = read_subjects(["lstm", "mine.json"], tmp_path)
    tune_module._check_beside(TuneOptions(torch_compile=True), both, "auto")  # lstm can run in it


def test_a_file_that_is_no_network_is_told_what_it_is_beside_engines_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda _: "here")
    (tmp_path / "net.onnx").write_bytes(b"\x08\x07")

    with pytest.raises(WorkloadError, match="is an ONNX model, which costhub does not read"):
        tune(str(tmp_path / "net.onnx"), tmp_path / "out", options=TuneOptions(beside=("onnxruntime",)))


def test_an_engine_that_is_not_installed_is_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda name: None if name == "openvino" else "here")

    with pytest.raises(CosthubError, match=r"^OpenVINO cannot be timed without openvino, which is not installed: `pip"):
        tune("lstm", tmp_path / "tuned", trials=4, options=TuneOptions(beside=("openvino",)))

    assert not (tmp_path / "tuned").exists()


def test_engines_are_asked_for_beside_the_other_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(finish, "finish_network", lambda *_, beside, **__: asked.append(beside))
    here: Any = SimpleNamespace(boards=None, device={"kind": "cpu"}, target=local_target())
    report: Any = SimpleNamespace(write=dict)

    for options in (TuneOptions(), TuneOptions(beside=("openvino",), torch_compile=True)):
        tune_module._finished(["lstm"], here, tmp_path, options, report, StageTimer())

    assert asked == [[], ["torch.compile", "openvino"]]


def test_what_a_search_found_is_kept_while_a_network_is_compiled_and_before_it_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[str] = []
    compiling = threading.Event()

    def write(*, stages: dict[str, float]) -> None:
        assert compiling.wait(60)
        events.append(f"kept {sorted(stages)}")

    def finished(*_: Any, on_step: Callable[[str], None], **__: Any) -> None:
        on_step("compiling")
        events.append("compiled")
        compiling.set()
        on_step("checking")
        events.append("timed")

    def fails(*_: Any, **__: Any) -> None:
        compiling.set()
        raise MeasureError("no process starts")

    here: Any = SimpleNamespace(boards=None, device={"kind": "cpu"}, target=local_target())
    report: Any = SimpleNamespace(write=write)
    monkeypatch.setattr(finish, "finish_network", finished)
    tune_module._finished(["lstm"], here, tmp_path, TuneOptions(), report, StageTimer())
    assert events == ["compiled", "kept ['other']", "timed"]

    events.clear()
    compiling.clear()
    monkeypatch.setattr(finish, "finish_network", fails)
    with pytest.raises(MeasureError, match="no process starts"):
        tune_module._finished(["lstm"], here, tmp_path, TuneOptions(), report, StageTimer())
    assert events == ["kept ['other']"]

    compiling.clear()
    report.write = lambda **_: (_ for _ in ()).throw(DataError("The disk is full."))
    with pytest.raises(MeasureError, match="no process starts"):
        tune_module._finished(["lstm"], here, tmp_path, TuneOptions(), report, StageTimer())
    assert "The report of the search could not be written: The disk is full." in caplog.text

    caplog.clear()
    compiling.clear()
    monkeypatch.setattr(finish, "finish_network", finished)
    with pytest.raises(DataError, match="The disk is full"):
        tune_module._finished(["lstm"], here, tmp_path, TuneOptions(), report, StageTimer())
    assert "could not be written" not in caplog.text


def test_two_networks_wait_for_one_report_before_the_first_of_them_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    compiling = threading.Event()

    def write(*, stages: dict[str, float]) -> None:
        assert compiling.wait(60)
        events.append("kept")

    def finished(network: str, *, on_step: Callable[[str], None], **_: Any) -> str:
        on_step("compiling")
        events.append(f"compiled {network}")
        compiling.set()
        on_step("checking and timing")
        events.append(f"timed {network}")
        return network

    here: Any = SimpleNamespace(boards=None, device={"kind": "cpu"}, target=local_target())
    report: Any = SimpleNamespace(write=write)
    networks = ["lstm", "mobilenet_v2"]
    monkeypatch.setattr(finish, "finish_network", finished)

    assert tune_module._finished(networks, here, tmp_path, TuneOptions(), report, StageTimer()) == networks
    first, second = ([f"{what} {network}" for what in ("compiled", "timed")] for network in networks)
    assert events == [first[0], "kept", first[1], *second]


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ids of the processes that read networks, of the searches that were begun."""
    pids: list[int] = []
    run = tune_module._Search.run

    def noted(search: Any, device: Any, reader: Child, *rest: Any) -> Any:
        assert reader.is_running
        pids.append(reader.pid or 0)
        return run(search, device, reader, *rest)

    monkeypatch.setattr(tune_module._Search, "run", noted)
    return pids


@pytest.mark.parametrize("why", ["another search", "two of a name", "no tracker", "^C"])
def test_the_process_that_reads_networks_ends_with_a_search_that_is_refused_or_interrupted(
    why: str, tmp_path: Path, readers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    name = "matmul.128x128x128"
    errors = {"another search": DataError, "two of a name": WorkloadError, "no tracker": MeasureError}
    twins = {name: find_workload(name).module(), "kernel": name, "network": "lstm"}
    what: Any = twins if why == "two of a name" else "lstm"
    device = BoardsAt("127.0.0.1:1", "nobody") if why == "no tracker" else "auto"
    monkeypatch.setattr(tune_module, "check_boards", lambda _: None)  # as if the tracker had ended since
    if why == "^C":
        monkeypatch.setattr(tune_module, "open_measurer", interrupted)

    held = SearchFolder(tmp_path) if why == "another search" else nullcontext()
    with held, pytest.raises(errors.get(why, KeyboardInterrupt)):
        tune(what, tmp_path, trials=4, device=device)

    (reader,) = readers
    assert not psutil.pid_exists(reader)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"model": "no-such-device"}, "no-such-device"),
        ({"device": "amd-epyc-zen9"}, "amd-epyc-zen9"),
        ({"options": TuneOptions(method="bref")}, "brief"),
        ({"options": TuneOptions(strategy="anealing")}, "annealing"),
        ({"options": TuneOptions(select="divers")}, "diverse"),
        ({"options": TuneOptions(draft="no-such-draft")}, "no-such-draft"),
        ({"options": TuneOptions(space="blokced")}, "no design space named 'blokced'. Did you mean blocked"),
        ({"options": TuneOptions(space="tensor-core")}, "for cuda targets, but this one is of kind llvm"),
        ({"options": TuneOptions(space="no_such_rules:space")}, "No module named 'no_such_rules'"),
        ({"options": TuneOptions(beside=("openvin",))}, "There is no engine named 'openvin'. Did you mean openvino"),
        ({"options": TuneOptions(beside="openvino")}, r"not a text: \('openvino',\)"),  # type: ignore[arg-type]
        ({"options": TuneOptions(sources=("near",))}, "'near' is not a source of known schedules"),
        ({"options": TuneOptions(without=("matmull",))}, "no workload, suite or network named 'matmull'"),
        ({"options": TuneOptions(without="matmul")}, r"not a text: \('matmul',\)"),  # type: ignore[arg-type]
        ({"what": "resnet18.c77"}, "resnet18.c7"),
        ({"trials": 0}, "trials=0 is too few"),
        ({"trials": -4}, "trials=-4 is too few"),
    ],
)
def test_what_does_not_exist_is_refused_first(tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(CosthubError, match=words):
        tune(**{"what": "matmul.128x128x128", "out": tmp_path / "tuned", **arguments})

    assert not (tmp_path / "tuned").exists()


def test_what_can_be_told_before_a_folder_is_made_leaves_none(tmp_path: Path) -> None:
    for what in (["matmul.128x128x128"] * 2, ["matmul.128x128x128", "matmul"]):
        with pytest.raises(WorkloadError, match=r"two are called matmul\.128x128x128"):
            tune(what, tmp_path / "tuned", trials=4)
    plain = next((name for name in local_names() if name.endswith("-sse4.2")), None)
    if plain is not None:
        with pytest.raises(ArgumentError, match="bf16 needs a CPU with AVX512-BF16"):
            tune("lstm", tmp_path / "tuned", trials=4, device=plain, options=TuneOptions(precision="bf16"))

    assert not (tmp_path / "tuned").exists()


def test_the_report_of_something_else_is_refused_before_the_folder_is_locked(tmp_path: Path) -> None:
    out = tmp_path / "tuned"
    out.mkdir()
    (out / "report.json").write_text("[]")

    with pytest.raises(DataError, match="is not a report of `costhub tune`"):
        tune("matmul.128x128x128", out, trials=4)

    assert [path.name for path in out.iterdir()] == ["report.json"]


def test_a_module_is_tuned_with_a_model_of_ones_own(tmp_path: Path) -> None:
    model = load_model("nvidia-h200", arch="mlp")
    mod = find_workload("matmul.128x128x128").module()
    start = time.time()

    found = tune({"mine": mod}, tmp_path / "tuned", trials=4, model=model, options=TuneOptions(strategy="random"))

    (result,) = found.workloads
    assert (result.workload, result.trials) == ("mine", 4)
    assert found.latency_us == result.best_us
    assert found.before_us is None
    assert found.summary["model"] == "costhub/nvidia-h200-mlp"
    assert found.summary["command"].startswith("costhub.tune(what, ")
    assert json.loads((tmp_path / "tuned/report.json").read_text()) == json.loads(json.dumps(found.summary))
    stages = found.summary["stages"]
    assert stages.keys() == {"opening", "searching", "other"}
    began = datetime.fromisoformat(found.summary["began"]).timestamp()
    assert start - 0.001 <= began < began + sum(stages.values()) <= time.time() + 0.001
    assert sum(result.stages.values()) < stages["searching"]
    assert found.report.is_file()
    assert (found.database / "database_tuning_record.json").is_file()


def test_the_report_leaves_a_model_without_a_name_to_the_caller(tmp_path: Path) -> None:
    model = load_model("nvidia-h200", arch="mlp")
    model.name = ""

    found = tune("matmul.128x128x128", tmp_path, trials=2, model=model, options=TuneOptions(strategy="random"))

    assert found.summary["model"] == "a mlp model of your own"
    assert found.summary["command"] == (
        f"costhub.tune('matmul.128x128x128', {str(tmp_path)!r}, trials=2, model=model, device='auto', seed=0, "
        "options=costhub.TuneOptions(strategy='random'))"
    )


@pytest.mark.slow
def test_a_search_in_the_folder_of_another_models_search_says_what_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def search(arch: str, what: str = "matmul.128x128x128") -> Any:
        caplog.clear()
        options = TuneOptions(strategy="random", method="frozen", stop="never", from_scratch=True)
        return tune(what, tmp_path, trials=2, model=load_model("nvidia-h200", arch=arch), options=options)

    search("mlp")
    assert "counts as trials" not in caplog.text
    search("mlp")
    assert "counts as trials" not in caplog.text, "the same search goes on"
    search("gbt", "softmax.64x1000")
    assert "counts as trials" not in caplog.text, "nothing of this workload was measured"
    search("gbt")
    assert f"{tmp_path} holds a search of the same workloads with costhub/nvidia-h200-mlp. What it" in caplog.text
    assert "counts as trials of this search with costhub/nvidia-h200-gbt, which measures fewer" in caplog.text


@pytest.mark.slow
def test_a_search_in_a_space_of_ones_own_says_so_and_its_programs_count_in_any_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, marked_space: str, is_marked: Any
) -> None:
    def search(space: str | None, trials: int) -> Any:
        options = TuneOptions(strategy="random", method="frozen", stop="never", space=space)
        model = load_model("nvidia-h200", arch="mlp")
        return tune("matmul.128x128x128", tmp_path, trials=trials, model=model, options=options, progress=False)

    first = search(marked_space, 2)

    assert is_marked(tmp_path) == [True] * 2
    assert [row["space"] for row in first.summary["workloads"]] == [marked_space]
    assert f"; design space: {marked_space}" in first.summary["method"]
    assert f"design space: {marked_space}" in (tmp_path / "report.md").read_text()
    assert search(marked_space, 3).workloads[0].trials == 3
    assert "another design space" not in caplog.text
    (row,) = search(None, 5).summary["workloads"]
    assert (row["space"], row["trials"], row["trials_before"]) == ("default", 5, 3)
    assert is_marked(tmp_path) == [True] * 3 + [False] * 2
    assert f"drawn from another design space ({marked_space}) and count as trials of this search" in caplog.text


@pytest.mark.slow
def test_a_network_is_right_in_tvms_own_space_although_its_layouts_are_blocked(tmp_path: Path) -> None:
    import torch

    network = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)).eval()
    example = torch.randn(32, 256)

    found = tune(
        torch.export.export(network, (example,)), tmp_path, trials=4, options=TuneOptions(space="default", stop="never")
    )

    assert {row["space"] for row in found.summary["workloads"]} == {"default"}
    torch.testing.assert_close(found.load()(example), network(example).detach(), rtol=1e-4, atol=1e-4)


def test_what_is_known_and_proposed_is_what_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class EndedError(Exception):
        pass

    searches: list[Search] = []

    def ended(_: object, search: Search, *__: object, **___: object) -> None:
        searches.append(search)
        raise EndedError

    monkeypatch.setattr("costhub.search.tune.tune_all", ended)
    name = "matmul.128x128x128"
    asking = TuneOptions(sources=("carried",), without=(name,), descends=True, space="llvm")
    for options in (TuneOptions(), asking):
        with pytest.raises(EndedError):
            tune(name, tmp_path, trials=2, options=options)

    usual, asked = searches
    assert (usual.known_sources, usual.known.without, usual.descends) == (("measured",), frozenset(), False)
    assert (usual.space, asked.space) == (None, "llvm")
    assert (asked.known_sources, asked.descends) == (("carried",), True)
    assert asked.known.without == {workload_id(find_workload(name).module())}
    assert asked.known.rows == usual.known.rows != ()


@pytest.mark.slow
def test_an_exported_network_becomes_a_function_of_torch_tensors(tmp_path: Path) -> None:
    import torch

    network = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)).eval()
    example = torch.randn(32, 256)
    found = tune(torch.export.export(network, (example,)), tmp_path / "tuned", trials=4)

    assert found.library == tmp_path / "tuned/network.so"
    assert found.latency_us == found.networks[0].latencies["tuned"].median_us
    stages = found.summary["stages"]
    assert min(stages["reading"], stages["extracting"]) > 0.0
    assert sum(found.networks[0].stages.values()) < stages["finishing"]
    loaded = found.load()
    torch.testing.assert_close(loaded(example), network(example).detach(), rtol=1e-4, atol=1e-4)
    assert loaded.threads == found.networks[0].threads
    with pytest.raises(NetworkError, match=r"does not run with these inputs \(.*\): .*float64"):
        loaded(example.double())
    with pytest.raises(NetworkError, match="is not a library"):
        TunedNetwork(tmp_path / "tuned/network.pt2")


def test_many_measured_programs_are_announced_and_few_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILES[1]).write_text("[]\n" * 3)
    caplog.set_level("INFO", logger="costhub")

    monkeypatch.setattr(tune_module, "MANY_PROGRAMS", 4)
    tune_module._say_what_is_held(tmp_path)
    assert not caplog.messages

    monkeypatch.setattr(tune_module, "MANY_PROGRAMS", 3)
    tune_module._say_what_is_held(tmp_path)
    assert caplog.messages == [
        f"{tmp_path} holds 3 measured programs: reading them and learning from them may take minutes."
    ]
