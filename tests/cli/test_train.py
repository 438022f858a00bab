from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

import costhub
from costhub.cards.model_card import is_as_rendered
from costhub.cli.main import run
from costhub.cli.train import command
from costhub.dataset.folder import DataFolder
from costhub.dataset.splits.split import Split, put_split, save_split
from costhub.hub.install import install_model
from costhub.hub.pull import pull
from costhub.models.architectures import new_model
from costhub.models.folder import load_model
from costhub.models.networks.training_state import Checkpoint, TrainingState
from costhub.models.train import STOP_SHARE

_measured = runpy.run_path(str(Path(__file__).with_name("measured_folder.py")))
build_data, WORKLOADS = _measured["build_data"], _measured["WORKLOADS"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    found: Path = build_data(tmp_path / "data")
    return found


@pytest.mark.parametrize("arch", ["mlp", "gbt"])
def test_training_writes_a_model_with_its_card_and_shows_the_figures(
    arch: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model"

    assert run(["train", "--data", str(data), "--arch", arch, "--out", str(out), "--seed", "3"]) == 0

    model, info = load_model(out)
    assert (model.arch, info.device_id, info.seed) == (arch, "acme-one", 3)
    # Of each of the two operators one workload is held out.
    assert {name.split("-")[1][:-1] for name in info.test_workloads} == {"conv2d", "matmul"}
    assert set(info.train_workloads) | set(info.test_workloads) == {f"id-{name}" for name in WORKLOADS}
    assert is_as_rendered((out / "README.md").read_text())
    figures = json.loads((out / "evaluation.json").read_text())
    assert info.metrics == figures["totals"]
    shown = capsys.readouterr().out
    assert "mean of 2" in shown
    assert f"Wrote {out}: {arch} on tiles@1 for acme-one, from 48 programs of 4 workloads, 2 of which decided" in shown


def test_a_trained_model_can_be_installed_and_pulled(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    assert run(["train", "--data", str(data), "--arch", "gbt", "--out", str(out)]) == 0
    figures = json.loads((out / "evaluation.json").read_text())

    installed = install_model(out, root=tmp_path / "hub", evaluation=figures)
    pulled = pull(f"local-dir:{installed}", out=tmp_path / "pulled")

    assert installed.name == "acme-one-gbt"
    assert load_model(pulled)[1] == load_model(out)[1]


def test_a_split_says_what_to_learn_from(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_split(Split("mine", ("id-conv2d0", "id-conv2d1"), ("id-matmul2",), 0), tmp_path / "split.json")
    arguments = [
        "train",
        "--data",
        data,
        "--arch",
        "gbt",
        "--out",
        tmp_path / "model",
        "--split",
        tmp_path / "split.json",
    ]

    assert run([*map(str, arguments), "--json"]) == 0

    info = load_model(tmp_path / "model")[1]
    assert (info.train_workloads, info.test_workloads) == (("id-conv2d0", "id-conv2d1"), ("id-matmul2",))
    evaluation = json.loads(capsys.readouterr().out)["evaluation"]
    assert [w["workload"] for w in evaluation["workloads"]] == ["matmul2"]


def test_a_split_of_the_folder_is_chosen_by_name(data: Path, tmp_path: Path) -> None:
    put_split(data, Split("mine", ("id-conv2d0", "id-conv2d1"), ("id-matmul2",), 0))
    arguments = ["train", "--data", str(data), "--arch", "gbt", "--out", str(tmp_path / "model")]

    assert run([*arguments, "--split", "mine"]) == 0

    assert load_model(tmp_path / "model")[1].test_workloads == ("id-matmul2",)
    assert run([*arguments[:-1], str(tmp_path / "other"), "--split", "mime"]) == 2


def test_a_split_by_device_is_learned_from_on_its_devices_only(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build_data(data, device_id="blit-gpu")
    ids = tuple(f"id-{name}" for name in WORKLOADS)
    devices: Any = {"train_devices": ("acme-one",), "test_devices": ("blit-gpu",)}
    put_split(data, Split("device-blit-gpu", ids, ids, kind="device", hold_out=("blit-gpu",), **devices))
    arguments = ["train", "--data", str(data), "--arch", "gbt", "--split", "device-blit-gpu", "--out"]

    assert run([*arguments, str(tmp_path / "wrong"), "--device", "blit-gpu"]) == 2
    assert "has acme-one to train on, and 'blit-gpu' is not among them" in capsys.readouterr().err
    assert run([*arguments, str(tmp_path / "model"), "--device", "acme-one"]) == 0

    # The other device is what it is tested on, with workloads that it knows from this one.
    model = str(tmp_path / "model")
    capsys.readouterr()
    assert run(["evaluate", model, "--data", str(data), "--split", "device-blit-gpu", "--json"]) == 0
    assert [w["workload"] for w in json.loads(capsys.readouterr().out)["workloads"]] == WORKLOADS
    given = ["--split", "device-blit-gpu", "--device", "acme-one"]
    assert run(["evaluate", model, "--data", str(data), *given]) == 2
    assert "has blit-gpu to test on" in capsys.readouterr().err


def test_without_anything_to_hold_out_there_are_no_figures_and_no_card(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_split(Split("all", tuple(f"id-{name}" for name in WORKLOADS), (), 0), tmp_path / "all.json")
    arguments = [
        "train",
        "--data",
        data,
        "--arch",
        "gbt",
        "--out",
        tmp_path / "model",
        "--split",
        tmp_path / "all.json",
    ]

    assert run([str(a) for a in arguments]) == 0

    assert load_model(tmp_path / "model")[1].metrics == {}
    assert not (tmp_path / "model/README.md").exists()
    assert "No workload could be held out" in capsys.readouterr().out


def test_two_devices_need_a_choice(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build_data(data, device_id="blit-gpu")
    arguments = ["train", "--data", str(data), "--arch", "gbt", "--out", str(tmp_path / "model")]

    assert run(arguments) == 2
    assert "2 devices (acme-one, blit-gpu); name one of them with --device" in capsys.readouterr().err
    assert run([*arguments, "--device", "blit-gpu"]) == 0
    assert load_model(tmp_path / "model")[1].device_id == "blit-gpu"


def test_one_model_learns_from_several_devices_and_scores_for_one_it_has_never_seen(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for device_id, cores in (("acme-one", 1), ("blit-two", 2), ("core-four", 4)):
        if device_id != "acme-one":
            build_data(data, device_id=device_id)
        DataFolder.open(data).put_device({"device_id": device_id, "kind": "cpu", "cores": cores})
    out, several = str(tmp_path / "model"), ["--device", "blit-two", "--device", "acme-one"]

    assert run(["train", "--data", str(data), "--arch", "conditioned", *several, "--out", out]) == 0

    info = load_model(out)[1]
    assert (info.device_ids, info.data_rows) == (("acme-one", "blit-two"), 2 * 48)
    rows = json.loads(Path(out, "evaluation.json").read_text())["workloads"]
    assert sorted(row["device_id"] for row in rows) == ["acme-one", "acme-one", "blit-two", "blit-two"]
    assert is_as_rendered(Path(out, "README.md").read_text())
    capsys.readouterr()
    assert run(["evaluate", out, "--data", str(data), "--device", "core-four", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["pairwise"] > 0.7


def test_all_workloads_can_be_learned_from_to_the_full_length(data: Path, tmp_path: Path) -> None:
    arguments = ["train", "--data", str(data), "--arch", "gbt", "--option", "rounds=30"]

    assert run([*arguments, "--out", str(tmp_path / "stopped")]) == 0
    assert run([*arguments, "--stop-share", "0", "--out", str(tmp_path / "whole")]) == 0

    default = next(option for option in command.params if option.name == "stop_share").default
    assert default == STOP_SHARE
    sizes = [(tmp_path / name / "model.ubj").read_bytes() for name in ("stopped", "whole")]
    assert sizes[0] != sizes[1]
    hashes = {load_model(tmp_path / name)[1].data_hash for name in ("stopped", "whole")}
    assert len(hashes) == 1


@pytest.mark.parametrize("stop_share", [0.0, STOP_SHARE])
@pytest.mark.parametrize("arch", ["gbt", "blend", "mlp"])
def test_the_command_and_python_train_the_same_model(
    arch: str, stop_share: float, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = tuple(f"id-{name}" for name in WORKLOADS)
    put_split(data, Split("mine", ids[:4], ids[4:], 0))
    options = {"gbt": {"rounds": 60}, "blend": {"members": "gbt(rounds=60) mlp(epochs=2)"}, "mlp": {"epochs": 2}}[arch]
    words = [word for name, value in options.items() for word in ("--option", f"{name}={value}")]
    words += ["--split", "mine", "--stop-share", str(stop_share), "--seed", "2"]
    train, test = (costhub.load_programs(data, workloads=set(side), progress=False) for side in (ids[:4], ids[4:]))

    assert run(["train", "--data", str(data), "--arch", arch, "--out", str(tmp_path / "model"), *words]) == 0
    by_name = costhub.train(train, arch, valid=stop_share, seed=2, options=options, progress=False)
    by_class = new_model(arch, feature_spec=train.spec, options=options)
    by_class.fit(*(train.split_off(stop_share, seed=2)), seed=2, progress=False)

    expected = load_model(tmp_path / "model")[0].predict(test.rows, test.counts).tolist()
    assert by_name.predict(test.rows, test.counts).tolist() == expected
    assert by_class.predict(test.rows, test.counts).tolist() == expected
    said = capsys.readouterr().out
    assert f"from 48 programs of 4 workloads{', 2 of which decided when to stop' if stop_share else ''}." in said


def test_a_model_can_be_meant_for_another_device_than_those_it_learned_from(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, arguments = str(tmp_path / "model"), ["train", "--data", str(data), "--arch", "gbt"]

    assert run([*arguments, "--for", "any-cpu", "--out", out]) == 0

    info = load_model(out)[1]
    assert (info.device_id, info.device_ids) == ("any-cpu", ("acme-one",))
    build_data(data, device_id="blit-two")
    both = ["--device", "acme-one", "--device", "blit-two"]
    assert run([*arguments, *both, "--out", str(tmp_path / "of-both")]) == 0
    assert load_model(tmp_path / "of-both")[1].device_ids == ("acme-one", "blit-two")
    several = [*both, "--for", "blit-two"]
    assert run([*arguments, *several, "--out", str(tmp_path / "two")]) == 0
    rows = json.loads((tmp_path / "two/evaluation.json").read_text())["workloads"]
    assert {row["device_id"] for row in rows} == {"blit-two"}
    assert run([*arguments, "--for", "../up", "--out", str(tmp_path / "other")]) == 2
    assert "'../up' is not a device name" in capsys.readouterr().err


def test_a_device_of_which_nothing_is_known_cannot_be_conditioned_on(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", "--data", str(data), "--arch", "conditioned", "--out", str(tmp_path / "model")]) == 2

    assert "Nothing is known about the device 'acme-one'" in capsys.readouterr().err


def test_an_unknown_architecture_exits_with_2(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--data", str(data), "--arch", "mpl", "--out", str(tmp_path / "model")]) == 2
    assert "no architecture named 'mpl'. Did you mean mlp?" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_some_programs_of_each_workload_are_enough(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--data", str(data), "--arch", "gbt", "--programs-per-workload", "5", "--out"]

    assert run([*words, str(tmp_path / "model")]) == 0

    assert "from 20 programs of 4 workloads" in capsys.readouterr().out  # 12 of each were measured
    assert load_model(tmp_path / "model")[1].data_rows == 20
    assert run([*words, str(tmp_path / "other"), "--stop-share", "nan"]) == 2
    assert "nan is out of range" in capsys.readouterr().err
    assert run([*words, str(tmp_path / "other"), "--stream"]) == 2
    assert "leave it out with --stream" in capsys.readouterr().err


def test_options_of_the_architecture_are_given_by_name(data: Path, tmp_path: Path) -> None:
    given = ["--objective", "lambdarank", "--option", "hidden=8", "--option", "epochs = 2"]

    assert run(["train", "--data", str(data), "--out", str(tmp_path / "model"), *given]) == 0

    options = json.loads((tmp_path / "model/config.json").read_text())["options"]
    assert (options["objective"], options["hidden"], options["epochs"]) == ("lambdarank", 8, 2)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--option", "hiden=8"], "no option of mlp named 'hiden'. Did you mean hidden?"),
        (["--option", "hidden=8.5"], "hidden must be a whole number, got '8.5'"),
        (["--option", "hidden"], "'hidden' is not of the form NAME=VALUE"),
        (["--objective", "ranks"], "'ranks' is not one of 'regression', 'rank', 'lambdarank', 'gap', 'log'"),
        (["--objective", "log"], "objective must be one of regression, rank, lambdarank, gap"),
    ],
)
def test_options_that_cannot_be_are_refused(
    given: list[str], sentence: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "model")

    assert run(["train", "--data", str(data), "--out", out, *given]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("mlp", {"hidden": "8", "epochs": "3"}),
        ("blend", {"members": "gbt(rounds=5) mlp(hidden=8,epochs=3)"}),
        ("conditioned", {"base": "blend", "members": "mlp(hidden=8,epochs=3)"}),
        ("ensemble", {"member": "mlp(hidden=8,epochs=3)", "members": "2"}),
    ],
)
def test_an_interrupted_training_says_how_to_go_on_and_does(
    arch: str,
    options: dict[str, str],
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    DataFolder.open(data).put_device({"device_id": "acme-one", "kind": "cpu", "cores": 1})
    save = Checkpoint.save
    given = ["--arch", arch, *(word for name, value in options.items() for word in ("--option", f"{name}={value}"))]

    def saved_once(checkpoint: Checkpoint, state: TrainingState) -> None:
        save(checkpoint, state)
        if state.epochs == 2:
            raise KeyboardInterrupt

    epochs: list[int] = []

    def noted(checkpoint: Checkpoint, state: TrainingState) -> None:
        save(checkpoint, state)
        epochs.append(state.epochs)

    def train(out: str) -> int:
        return run(["train", "--data", str(data), "--out", str(tmp_path / out), *given])

    with monkeypatch.context() as context:
        context.setattr(Checkpoint, "save", saved_once)
        assert train("model") == 130
    assert f"The progress is kept in {tmp_path / 'model.partial'}: run the same command" in capsys.readouterr().err
    with monkeypatch.context() as context:
        context.setattr(Checkpoint, "save", noted)
        assert train("model") == 0
    assert epochs[0] == 3  # not the first one again
    assert train("unbroken") == 0

    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "model", "unbroken"]
    files = sorted(path.relative_to(tmp_path / "model") for path in (tmp_path / "model").rglob("*.safetensors"))
    assert files
    for file in files:
        assert (tmp_path / "model" / file).read_bytes() == (tmp_path / "unbroken" / file).read_bytes()


def test_a_folder_of_something_else_is_refused_before_the_work(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/thesis.tex").write_text("years of work")

    assert run(["train", "--data", str(data), "--arch", "gbt", "--out", str(tmp_path / "notes")]) == 2
    assert "exists and is not a model folder" in capsys.readouterr().err


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--help"]) == 0
    assert "costhub train --data measurements/ --arch mlp --out my-model/" in capsys.readouterr().out
