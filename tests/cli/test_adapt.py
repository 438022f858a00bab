from __future__ import annotations

import json
import re
import runpy
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costhub.api.subjects import Subjects
from costhub.cards.model_card import is_as_rendered
from costhub.cli.adapt import AdaptedModel, _advice, _check_live
from costhub.cli.main import run
from costhub.collector.device.identity import identify
from costhub.dataset.features.specs import find_spec
from costhub.dataset.folder import DataFolder
from costhub.dataset.programs import Programs
from costhub.dataset.splits.split import Split, put_split
from costhub.errors import DeviceError
from costhub.hub.catalogue.devices import complete_device_row, load_devices
from costhub.hub.catalogue.find import choose_model
from costhub.hub.catalogue.hubs import list_models
from costhub.models.architectures import new_model
from costhub.models.folder import load_model
from costhub.transfer.adapt import adapt as adapt_

_measured = runpy.run_path(str(Path(__file__).with_name("measured_folder.py")))
build_data, WORKLOADS = _measured["build_data"], _measured["WORKLOADS"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    found: Path = build_data(tmp_path / "data", device_id="acme-two", each=16)
    return found


@pytest.fixture
def source(tmp_path: Path) -> str:
    """A model folder of another device."""
    build_data(tmp_path / "theirs")
    arguments = [
        "--arch",
        "mlp",
        "--option",
        "hidden=32",
        "--option",
        "epochs=40",
        "--out",
        str(tmp_path / "source"),
    ]
    assert run(["train", "--data", str(tmp_path / "theirs"), *arguments]) == 0
    return str(tmp_path / "source")


def adapt(source: str, data: Path, out: Path, *more: str) -> int:
    return run(["adapt", source, "--data", str(data), "--out", str(out), *more])


def test_a_model_for_the_target_is_written_with_its_card_and_its_way(
    source: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model"

    assert adapt(source, data, out, "--trials", "40", "--method", "lottery", "--explain") == 0

    model, info = load_model(out)
    assert (model.arch, info.device_id, info.base, info.data_rows) == ("mlp", "acme-two", "local/source", 40)
    assert not set(info.train_workloads) & set(info.test_workloads)
    before = load_model(source)[1]
    assert (info.base_devices, info.base_workloads) == (before.device_ids, before.train_workloads)
    card = (out / "README.md").read_text()
    assert "the adaptation learned from none of them, but the model that was adapted may have." in card
    assert is_as_rendered(card)
    assert "| continued from | local/source |" in card
    assert "| carried over by | lottery, 40 trials, " in card
    assert "of a layer's weights transferable" in card
    told = json.loads((out / "adaptation.json").read_text())
    assert (told["source"], told["method"], told["trials"]) == ("local/source", "lottery", 40)
    assert [point["trials"] for point in told["curve"]] == [0, 32]
    shown = capsys.readouterr()
    assert "before" in shown.out
    assert re.search(r"encode_1\.weight +0\.500 +0\.500 +0\.\d{3}\n", shown.out)
    for picture in ("adaptation.png", "masks.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")
        assert f"]({picture})" in card
    assert f"Wrote {out}: mlp for acme-two, from local/source and 40 trials." in shown.out


def test_a_split_by_device_holds_no_workload_out(
    source: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build_data(data, device_id="blit-gpu")
    ids = tuple(f"id-{name}" for name in WORKLOADS)
    sides = {"train_devices": ("acme-two",), "test_devices": ("blit-gpu",)}
    put_split(data, Split("device-blit-gpu", ids, ids, kind="device", hold_out=("blit-gpu",), **sides))
    how = ["--device", "acme-two", "--split", "device-blit-gpu", "--method", "frozen"]

    assert adapt(source, data, tmp_path / "model", *how) == 0

    assert load_model(tmp_path / "model")[1].metrics == {}
    assert "No workload was held out" in "".join(capsys.readouterr())


def test_workloads_that_the_source_has_learned_from_on_the_device_are_left_out_of_the_figures(
    source: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = tmp_path / "theirs"

    assert adapt(source, same, tmp_path / "first", "--method", "frozen", "--seed", "3") == 0

    before, info = load_model(source)[1], load_model(tmp_path / "first")[1]
    said = capsys.readouterr().err
    assert "has already learned from" in said
    assert "held-out workload" in said
    assert "the figures leave them out" in said
    assert not set(before.train_workloads) & set(info.test_workloads)


@pytest.mark.slow
def test_the_result_as_json(source: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()

    assert adapt(source, data, tmp_path / "model", "--method", "residual", "--json") == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["method"], told["chosen"], told["transferable"]) == ("residual", told["chosen"], [])
    assert told["before"]["totals"].keys() == told["after"]["totals"].keys()


@pytest.mark.slow
def test_the_same_command_again_says_that_the_model_is_finished(
    source: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, more = tmp_path / "model", ("--method", "residual", "--trials", "40")

    def wrote(*others: str) -> bool:
        assert adapt(source, data, out, *more, *others) == 0
        return f"Wrote {out}" in capsys.readouterr().out

    assert wrote()
    weights = (out / "config.json").stat().st_mtime_ns
    assert adapt(source, data, out, *more) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{out} is finished: the same command has already made this model, from local/source and 40")
    assert f"To start over, remove {out}" in said
    assert (out / "config.json").stat().st_mtime_ns == weights
    assert adapt(source, data, out, *more, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["folder"], told["finished_before"], told["trials"]) == (str(out), True, 40)

    assert wrote("--seed", "1")
    folder = DataFolder.open(data)
    row = folder.measurements().to_pylist()[0]
    with folder.writer("acme-two") as writer:
        writer.append({**row, "record_id": "new", "status": "run_error", "error": "it crashed", "run_s": []})
    assert wrote("--seed", "1")
    (out / "adaptation.json").write_text("{")
    assert wrote("--seed", "1")
    config = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps({**config, "device_id": "acme-three"}))
    assert adapt(source, data, out, *more, "--seed", "2") == 2
    assert f"{out} holds a model of acme-three, and this one is for acme-" in capsys.readouterr().err


def test_the_model_of_another_device_is_refused_before_anything_is_measured(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.iterdir())
    capsys.readouterr()

    assert run(["adapt", "auto", "--suite", "matmul.128x128x128", "--trials", "4", "--out", source]) == 2

    assert f"{source} holds a model of acme-one, and this one is for " in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.slow
def test_a_model_folder_does_not_say_where_its_data_lay(source: str, data: Path, tmp_path: Path) -> None:
    adapt(source, data, tmp_path / "model", "--method", "frozen")

    assert str(tmp_path) not in (tmp_path / "model/adaptation.json").read_text()


@pytest.mark.slow
def test_a_method_without_masks_says_so(
    source: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert adapt(source, data, tmp_path / "model", "--method", "frozen", "--explain") == 0

    assert "frozen has no masks" in capsys.readouterr().out
    assert (tmp_path / "model/adaptation.png").is_file()
    assert not (tmp_path / "model/masks.png").exists()


@pytest.mark.slow
def test_a_method_takes_options_and_the_card_names_them(
    source: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model"

    assert adapt(source, data, out, "--method", "lottery", "--option", "ratio=0.25", "--option", "epochs=2") == 0

    told = json.loads((out / "adaptation.json").read_text())
    assert told["method"] == "lottery(ratio=0.25, epochs=2)"
    assert "| carried over by | lottery(ratio=0.25, epochs=2), " in (out / "README.md").read_text()
    [[first, *_]] = told["transferable"]
    assert first["encode_1.weight"] == pytest.approx(0.25, abs=0.01)


@pytest.mark.slow
def test_the_adversary_of_moses_compares_with_data_of_the_source(
    source: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--method", "moses", "--option", "domain=0.05", "--option", "epochs=2")

    assert adapt(source, data, tmp_path / "without", *options) == 2
    assert "give some of them with --source-data" in capsys.readouterr().err
    assert adapt(source, data, tmp_path / "with", *options, "--source-data", str(tmp_path / "theirs")) == 0
    assert json.loads((tmp_path / "with/adaptation.json").read_text())["method"] == "moses(epochs=2, domain=0.05)"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--option", "domain=0.05"], "give some of them with --source-data"),
        (["--option", "domain=-1"], "domain must be between 0 and 1000"),
        (["--option", "threshold=1.5"], "threshold must be between 0 and 1"),
        (["--option", "decay=much"], "decay"),
        (["--source-data", "amd-epyc-zen5-2c"], "`--option domain=0.05`, or leave --source-data out"),
    ],
)
def test_wrong_options_of_moses_are_refused_before_a_model_or_data_are_looked_for(
    more: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert adapt("no-such-model", tmp_path / "no-data", tmp_path / "model", "--method", "moses", *more) == 2

    told = capsys.readouterr().err
    assert sentence in told
    assert "no-such-model" not in told


@pytest.mark.slow
def test_a_ticket_without_networks_says_what_it_does_instead(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str
) -> None:
    trees = str(tmp_path / "trees")
    arguments = ["--arch", "gbt", "--features", "trace_tokens@1", "--option", "rounds=5", "--out", trees]
    assert run(["train", "--data", str(tmp_path / "theirs"), *arguments]) == 0
    capsys.readouterr()

    assert adapt(trees, data, tmp_path / "model", "--method", "lottery") == 0
    assert "has no network, so there are no weights to mask" in capsys.readouterr().err
    assert adapt(source, data, tmp_path / "other", "--method", "lottery") == 0
    assert "no weights to mask" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--method", "lottery", "--option", "ration=0.3"], "ratio"),
        (["--method", "lottery", "--option", "ratio=2"], "ratio must be between 0 and 1"),
        (["--method", "frozen", "--option", "ratio=0.3"], "no options"),
        (["--method", "lottery", "--option", "ratio"], "NAME=VALUE"),
        (["--source-data", "no-such-data"], "no-such-data"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], sentence: str
) -> None:
    assert adapt("no-such-model", tmp_path / "no-data", tmp_path / "model", *more) == 2

    assert sentence in capsys.readouterr().err


def test_the_options_of_methods_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["adapt", "--list-options", "lottery", "--json"]) == 0
    assert {option["name"] for option in json.loads(capsys.readouterr().out)["lottery"]} == {
        "ratio",
        "decay",
        "epochs",
        "learning_rate",
    }
    assert run(["adapt", "--list-options"]) == 0
    assert "frozen\nno options" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--method", "lotery"], "lottery"),
        (["--device", "acme-none"], "acme-none"),
        (["--split", "mine"], "mine"),
        (["--trials", "1"], "--trials"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    source: str,
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    sentence: str,
) -> None:
    capsys.readouterr()

    assert adapt(source, data, tmp_path / "model", *more) == 2

    error = capsys.readouterr().err
    assert sentence in error
    assert "Traceback" not in error
    assert not (tmp_path / "model").exists()


def test_an_unknown_source_is_refused_with_the_close_ones(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert adapt("amd-epyc-zen5-2c-mpl", data, tmp_path / "model") == 2

    assert "amd-epyc-zen5-2c-mlp" in capsys.readouterr().err


@pytest.mark.slow
def test_auto_takes_the_model_of_the_hubs_that_ranks_the_first_measurements_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COSTHUB_HUB", raising=False)
    read_by_treegru = [find_spec("loop_context@1")]
    data = build_data(tmp_path / "data", device_id="amd-epyc-zen5-2c-avx2", each=16, more_specs=read_by_treegru)
    capsys.readouterr()

    assert adapt("auto", data, tmp_path / "model", "--method", "frozen", "--trials", "40") == 0

    chosen = next(line for line in capsys.readouterr().err.splitlines() if line.startswith("Source costhub/"))
    cpus = [entry for entry in list_models() if entry.device_id.startswith(("amd-epyc", "any-cpu", "intel-"))]
    assert f"Of {len(cpus)} models, it ranks 32 programs measured here best" in chosen
    told = json.loads((tmp_path / "model/adaptation.json").read_text())
    assert told["source"] == chosen.split()[1]
    default = choose_model("auto", complete_device_row({"device_id": "amd-epyc-zen5-2c-avx2"})).entry.name
    assert (f"`costhub tune` by itself would take {default};" in chosen) == (told["source"] != default)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
def test_where_tune_would_take_another_model_the_command_that_shows_its_figures_is_named(
    devices: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COSTHUB_HUB", raising=False)
    device_id = "amd-epyc-zen5-2c-avx2"
    data, out = build_data(tmp_path / "my data", device_id=device_id, each=16), tmp_path / "model"
    if devices == 2:
        build_data(data, device_id="acme-two")
    more = ["--arch", "mlp", "--device", device_id, "--method", "frozen", "--trials", "40", "--seed", "1"]

    assert adapt("auto", data, out, *more) == 0

    default = choose_model("auto", complete_device_row({"device_id": device_id})).entry.name
    chosen = next(line for line in capsys.readouterr().err.splitlines() if line.startswith("Source costhub/"))
    told = re.search(r"would take (\S+); `costhub (.*)` shows its figures on held-out workloads\.$", chosen)
    assert told is not None
    words = shlex.split(told[2])
    which = ["--device", device_id] if devices == 2 else []
    assert words == ["adapt", default, "--data", str(data), *which, "--seed", "1", "--trials", "40", "--out", "OTHER"]
    assert told[1] == default
    # It shows both models, and measures nothing.
    rows = DataFolder.open(data).measurements().num_rows
    assert run([*words[:-1], str(tmp_path / "other"), "--method", "frozen"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^On held-out workloads:\n.*\nbefore +0\..*\nafter +0\.", shown, re.MULTILINE)
    assert DataFolder.open(data).measurements().num_rows == rows


@pytest.mark.slow
def test_this_machine_is_measured_where_no_data_are_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "model"
    live = ["--suite", "matmul.128x128x128", "--suite", "softmax.64x1000", "--trials", "6"]

    assert run(["adapt", "auto", "--arch", "mlp", "--out", str(out), *live]) == 0

    folder = DataFolder.open(tmp_path / "model-data")
    assert folder.measurements().num_rows == 6
    model, info = load_model(out)
    assert (model.arch, info.device_id, info.data_rows) == ("mlp", folder.device_ids()[0], 6)
    said = capsys.readouterr().out
    assert "No workload was held out" in said
    assert "\nAll 6 trials were spent. Of 6 measured programs, none failed.\nWrote" in said

    assert run(["adapt", "auto", "--arch", "mlp", "--out", str(out), "--json", *live]) == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["trials"], told["finished_before"]) == (6, True)
    assert DataFolder.open(tmp_path / "model-data").measurements().num_rows == 6


def test_a_kernel_in_a_file_is_to_be_collected_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = tmp_path / "kernel.json"
    kernel.write_text('{"nodes": []}')

    assert run(["adapt", "auto", str(kernel), "--out", str(tmp_path / "model")]) == 2

    assert f"is a file. Measure it with `costhub collect {kernel} --out FOLDER`" in capsys.readouterr().err


def test_measuring_is_advised_against_where_the_model_knows_the_instructions() -> None:
    row = {"device_id": "acme", "kind": "cpu", "vendor": "Acme", "cores": 2}

    known = _advice(None, {**row, "simd_bits": 512, "isa_features": ["avx512f"]}, None)
    other = _advice(None, {**row, "simd_bits": 128, "isa_features": ["neon"]}, None)

    assert known is not None
    assert "costhub/any-cpu-conditioned has learned from CPUs with the same vector instructions as acme" in known
    assert other is None


def test_what_does_not_go_together_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "model")

    assert run(["adapt", "auto", "--out", out, "--split", "s"]) != 0
    assert "--split divides existing measurements" in capsys.readouterr().err
    assert run(["adapt", "auto", "--out", out, "--data", "nvidia-h200", "--stop", "gain"]) != 0
    assert "--stop ends measuring, and the programs in --data are measured already" in capsys.readouterr().err
    assert run(["adapt", "auto", "--out", out, "--stop", "gains"]) != 0
    assert "gain" in capsys.readouterr().err
    assert run(["adapt", "auto", "--out", out, "--key", "pi4"]) != 0
    assert "--tracker and --key go together" in capsys.readouterr().err
    boards = ["--tracker", "127.0.0.1:9", "--key", "pi4"]
    assert run(["adapt", "auto", "--out", out, *boards, "--device", "cuda"]) != 0
    assert "--device selects a device of this machine; leave it out" in capsys.readouterr().err
    assert run(["adapt", "auto", "--out", out, "--data", "nvidia-h200", "--suite", "resnet18"]) != 0
    assert "and nvidia-h200 is a name in a hub. Write ./nvidia-h200 for a folder" in capsys.readouterr().err
    assert run(["adapt", "auto", "resnet18.c7", "--out", out, "--data", "nvidia-h200"]) != 0
    assert "With a WORKLOAD, --suite, --network or --tracker, --data is the folder" in capsys.readouterr().err
    for wrong, close in (("resnet18.c99", "resnet18.c9"), ("resnet51", "resnet50")):
        assert run(["adapt", "auto", wrong, "--out", out]) != 0
        assert close in capsys.readouterr().err
    assert run(["adapt", "auto", "--out", out, "--device", "acme-one", "--trials", "4"]) != 0
    said = capsys.readouterr().err
    assert "This machine has no device named 'acme-one'" in said
    assert "If its programs have been measured, name them with --data." in said
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def result() -> AdaptedModel:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(96, 3)).astype(np.float32)
    workload, ids = np.arange(96) // 16, tuple("abcdef")
    here = Programs(rows, np.ones(96, np.int64), workload, ids, np.exp(rows[:, 0]).astype(float))
    source = new_model("gbt", feature_spec="demo@1", options={"objective": "log", "rounds": 10})
    source.fit(here, None, seed=0, progress=False)
    done = adapt_(source, here, trials=64, batch=32, progress=False)
    return AdaptedModel("acme/theirs", "acme-two", done, {"before": None, "after": None}, [])


def test_without_figures_there_is_a_model_and_no_card(result: AdaptedModel, tmp_path: Path) -> None:
    result.save(tmp_path / "model", licence="Apache-2.0", seed=3)

    model, info = load_model(tmp_path / "model")
    assert (model.arch, info.device_id, info.base, info.seed) == ("gbt", "acme-two", "acme/theirs", 3)
    assert not (tmp_path / "model/README.md").exists()
    assert json.loads((tmp_path / "model/adaptation.json").read_text())["trials"] == 64


def test_people_and_machines_are_told_the_same(result: AdaptedModel, tmp_path: Path) -> None:
    told, text = json.loads(result.as_json(tmp_path)), result.report(tmp_path, explain=False)

    assert (told["trials"], told["before"], len(told["curve"])) == (64, None, 2)
    assert f"{told['curve'][1]['pairwise']['source']:.3f}" in text
    assert "No workload was held out" in text
    assert text.endswith(f"Wrote {tmp_path}: gbt for acme-two, from acme/theirs and 64 trials.")


@pytest.mark.parametrize(("adapted", "says"), [(0.4, True), (0.9, False)])
def test_a_model_that_is_not_ahead_of_its_source_is_said_to_be_so(
    result: AdaptedModel, tmp_path: Path, adapted: float, says: bool
) -> None:
    last = replace(result.done.verdicts[-1], pairwise={"adapted": adapted, "source": 0.5}, chosen="adapted")
    done = replace(result.done, verdicts=(result.done.verdicts[0], last), chosen="adapted")

    text = replace(result, done=done).report(tmp_path, explain=False)

    assert ("ranked the last batch no better than its source" in text) == says


def test_an_alias_of_this_machine_stands_for_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    device = replace(load_devices()[0], device_id=str(identify()["device_id"]), aliases=("my-desk",))
    monkeypatch.setattr("costhub.hub.catalogue.names.load_devices", lambda: [device])

    _check_live(Subjects(workloads=("resnet18.c7",)), "my-desk", None)
    with pytest.raises(DeviceError, match="If its programs have been measured, name them with --data"):
        _check_live(Subjects(workloads=("resnet18.c7",)), "your-desk", None)
