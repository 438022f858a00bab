"""`costhub.collect`: real measurements from names, files and modules, and refusals before anything starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costhub.api.collect import CollectOptions, RepeatNoise, collect
from costhub.api.measuring import open_measurer
from costhub.api.subjects import ModuleWorkload
from costhub.collector import collect as collector
from costhub.collector.device.identity import identify
from costhub.collector.device.local import find_local, local_names
from costhub.collector.propose.sampler import Shares
from costhub.collector.workload_queue import QueuedWorkload
from costhub.collector.workloads.network_source import multiplies_bf16
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.workload import module_from_json, module_to_json
from costhub.errors import ArgumentError, CosthubError, MeasureError, UnknownNameError, WorkloadError
from costhub.transfer.collection_stop import LearningCurve
from tests.relax_networks import two_layers


def test_a_licence_is_looked_at_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"Write cc-by-4\.0"):
        collect("matmul", tmp_path / "out", options=CollectOptions(licence="CC BY 4.0"))
    assert not (tmp_path / "out").exists()


def test_a_wrong_stop_rule_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="stop rule"):
        collect("matmul", tmp_path / "out", options=CollectOptions(stop="gains"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("what", "options", "words"),
    [
        ("lstm", {"precision": "bf16"}, r"give --space blocked \(space= in Python\) with --precision bf16"),
        ("lstm", {"precision": "bf17", "space": "blocked"}, "bf17"),
        ("matmul", {"precision": "bf16", "space": "blocked"}, "no network is named"),
    ],
)
def test_a_precision_that_would_do_nothing_is_refused_before_anything_is_made(
    what: str, options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(CosthubError, match=words):
        collect(what, tmp_path / "out", options=CollectOptions(**options))
    assert not (tmp_path / "out").exists()


def test_a_relax_module_keeps_its_types(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="is a relax module, which keeps its own types"):
        collect(two_layers(8), tmp_path / "out", options=CollectOptions(precision="bf16", space="blocked"))
    assert not (tmp_path / "out").exists()


def test_a_device_without_bfloat16_measures_none(tmp_path: Path) -> None:
    plain = next((name for name in local_names() if name.endswith("-sse4.2")), None)
    if plain is None:
        pytest.skip("this machine has no device limited to SSE4.2")
    with pytest.raises(ArgumentError, match="bf16 needs a CPU with AVX512-BF16"):
        collect("lstm", tmp_path / "out", device=plain, options=CollectOptions(precision="bf16", space="blocked"))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")
def test_kernels_in_bfloat16_are_measured_and_read_again(tmp_path: Path) -> None:
    import torch

    if not multiplies_bf16(json.dumps(find_local(["auto"])[0].target)):
        pytest.skip("this CPU has no AVX512-BF16")
    program = torch.export.export(torch.nn.Linear(128, 256).eval(), (torch.ones(32, 128),))
    torch.export.save(program, tmp_path / "dense.pt2")
    options = CollectOptions(precision="bf16", space="blocked")

    done = collect(tmp_path / "dense.pt2", tmp_path / "out", trials=4, options=options, progress=False)

    assert (done.good, done.failed, done.progress.problems) == (4, 0, {})
    (workload,) = DataFolder.open(tmp_path / "out").workloads().to_pylist()
    assert "matmul_pairs" in str(module_from_json(workload["module_json"]))
    assert load_programs(tmp_path / "out", progress=False).n == 4


def test_a_collection_ends_between_batches_where_its_rule_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule reads what is measured so far from the folder that is being written."""
    asked: list[tuple[int, int]] = []

    def reason(curve: LearningCurve, done: int) -> str | None:
        asked.append((done, curve.read().n))
        return "It is flat." if done >= 5 else None

    monkeypatch.setattr(LearningCurve, "reason_to_stop", reason)
    for name in ("BATCH", "CHUNK"):
        monkeypatch.setattr(collector, name, 4)
    options = CollectOptions(stop="gain")
    done = collect("matmul.128x128x128", tmp_path / "out", trials=96, options=options, progress=False)

    (first, held), (second, _) = asked
    assert 0 < held <= first == 4
    assert second == done.progress.done == 8
    assert "It is flat. Measuring more would gain little." in str(done)


def test_a_session_is_called_noisy_where_the_check_would_warn() -> None:
    noisy, quiet = [[1.0, 1.2]] * 20, [[1.0, 1.01]] * 20

    assert "`costhub check` warns of such a session (CH060): Measure again" in str(RepeatNoise.of("d", noisy))
    assert str(RepeatNoise.of("d", quiet + noisy[:19])).endswith(
        "19 of 39 rows with several repeats are above 1.1 times."
    )
    for few in (noisy[:19], [*noisy[:10], *quiet]):
        assert "CH060" not in str(RepeatNoise.of("d", few))
    assert "CH060" not in str(RepeatNoise.of("d", noisy, is_cpu=False))
    assert RepeatNoise.of("d", [[1.0], []]) is None


def test_a_module_is_measured_and_the_rows_name_their_contributor(tmp_path: Path) -> None:
    mod, out = find_workload("matmul.128x128x128").module(), tmp_path / "data"
    (tmp_path / "filed.json").write_text(module_to_json(find_workload("softmax.64x1000").module()))

    done = collect(
        {"mine": mod, "other": tmp_path / "filed.json"},
        out,
        trials=2,
        options=CollectOptions(contributor="Ada", licence="CC0-1.0", flush_caches=True),
        progress=False,
    )

    assert (done.good + done.failed, done.folder, done.progress.problems) == (4, out, {})
    assert str(done) == repr(done)
    assert str(done).startswith(
        f"{done.good} good measurements and {done.failed} failures of {done.device_ids[0]} added"
    )
    frame = done.to_pandas()
    assert sorted(set(frame["workload_id"].map(_names(out)))) == ["filed", "mine"]
    assert set(frame["contributor"]) == {"Ada"}
    assert set(frame["licence"]) == {"CC0-1.0"}
    assert frame["cache_flush"].all()
    assert collect({"mine": mod}, out, trials=2, progress=False).progress.done == 0


def test_caches_that_a_measurer_does_not_flush_are_not_said_to_be(tmp_path: Path) -> None:
    with open_measurer("auto") as measurer, pytest.raises(ArgumentError, match="This measurer does not flush caches"):
        collect("softmax.64x1000", tmp_path / "d", device=measurer, options=CollectOptions(flush_caches=True))
    assert not (tmp_path / "d").exists()


@pytest.mark.slow
def test_what_is_held_is_told_of_the_device_and_the_space_that_it_is_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole, part = (str(identify(**limits)["device_id"]) for limits in ({}, {"threads": 1}))
    collect("softmax.64x1000", tmp_path, trials=2, device=whole, progress=False)

    both = str(collect("softmax.64x1000", tmp_path, trials=2, device=[whole, part], progress=False))

    assert f"already holds these programs of {whole}." in both
    assert f"{part} got only the programs that were measured together with it" in both
    caplog.clear()
    other = CollectOptions(space="llvm")
    collect("softmax.64x1000", tmp_path, trials=2, device=whole, options=other, progress=False)
    assert "already holds 2 programs of these workloads from design spaces other than llvm" in caplog.text


@pytest.mark.slow
def test_nothing_was_left_is_said_only_where_it_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(trials: int, budget_s: float = 600.0) -> str:
        return str(collect("softmax.64x1000", tmp_path, trials=trials, budget_s=budget_s, progress=False))

    measured(2)

    assert "Nothing was left to measure" in measured(2)
    assert "0 good measurements and 0 failures" in measured(3, budget_s=0.0)
    monkeypatch.setattr(QueuedWorkload, "sampler", property(_no_space))
    given_up = measured(3)
    assert "Nothing was left" not in given_up
    assert "softmax.64x1000 was given up: no space for it" in given_up


def test_a_collection_that_gives_up_every_workload_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QueuedWorkload, "sampler", property(_no_space))

    with pytest.raises(MeasureError, match=r"Nothing could be measured\. Given up: .*: no space for it"):
        collect("softmax.64x1000", tmp_path, trials=2, progress=False)


def _no_space(_: QueuedWorkload) -> None:
    raise WorkloadError("no space for it")


def test_a_network_in_memory_is_measured_into_a_folder_of_data_only(tmp_path: Path) -> None:
    done = collect(two_layers(128), tmp_path / "data", trials=1, progress=False)

    assert done.good + done.failed > 0
    assert not list((tmp_path / "data").glob("network*"))
    assert collect(two_layers(128), tmp_path / "data", trials=1, progress=False).progress.done == 0


def _names(out: Path) -> dict[str, str]:
    from costhub.dataset.folder import DataFolder

    return {row["workload_id"]: row["name"] for row in DataFolder.open(out).workloads().to_pylist()}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"what": "nope"}, "no network, suite or workload named"),
        ({"what": []}, "nothing to tune or to measure"),
        ({"device": "amd-epyc-zen9"}, "amd-epyc-zen9"),
        ({"trials": 0}, "trials=0 is too few"),
        ({"budget_s": -1.0}, "budget_s=-1.0 is not a time"),
        ({"budget_s": float("nan")}, "budget_s=nan is not a time"),
        ({"options": CollectOptions(model="no-such-device")}, "no-such-device"),
        ({"options": CollectOptions(shares="model=1")}, "name it with --model"),
        ({"options": CollectOptions(model="any-cpu")}, "proposes the programs of the share `model`, which is 0"),
        ({"options": CollectOptions(shares="mutation=1,nope=0")}, "is not a source"),
    ],
)
def test_what_does_not_exist_is_refused_first(tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(CosthubError, match=words):
        collect(**{"what": "softmax.64x1000", "out": tmp_path / "data", **arguments})

    assert not (tmp_path / "data").exists()


def test_shares_are_text_or_an_object() -> None:
    assert CollectOptions().parsed_shares() == Shares()
    assert CollectOptions(shares="random=1").parsed_shares() == Shares(1.0, 0.0)
    assert CollectOptions(shares=Shares(1.0, 0.0)).parsed_shares() == Shares(1.0, 0.0)
    with pytest.raises(ArgumentError, match="must lie between 0 and 1"):
        CollectOptions(shares="random=2").parsed_shares()


def test_a_workload_of_ones_own_has_a_family() -> None:
    mod = find_workload("matmul.128x128x128").module()

    own = ModuleWorkload("mine", mod)
    assert (own.family, own.networks, own.module()) == ("matmul", (), mod)
