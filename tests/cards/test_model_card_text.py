"""The text of a model's card: its sections, and commands that get that very model."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from costhub.cards.model_card import from_results, is_as_rendered, model_card_body, parse, render
from costhub.cards.model_card_text import use_command
from costhub.cli.main import group
from costhub.collector.device.local import local_kind
from costhub.hub.catalogue.devices import find_device
from costhub.hub.catalogue.find import find_model
from costhub.hub.catalogue.hubs import EMBEDDED

SHIPPED = sorted(EMBEDDED.glob("models/*/*"))
TRANSFER = {
    "source": "acme/a-mlp",
    "method": "lottery",
    "trials": 1024,
    "chosen": "adapted",
    "pictures": ["adaptation.png", "masks.png"],
}


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_the_commands_on_a_shipped_card_get_that_very_model_for_its_kind_of_device(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"```bash\n(costhub .*)\n```", text)
    verb, *words = shlex.split(line)[1:]

    command = group.get_command(click.Context(group), verb)
    assert command is not None
    given = command.make_context(verb, words).params
    device = find_device(parse(text).device_id)
    assert device is not None
    kind = local_kind(device.kind if device.kind != "cpu" else "auto")
    if kind is None or device.device_id in ("nvidia-k80", "nvidia-v100"):
        # Nothing here measures on such a device, or compiles for one so old, so nothing searches on it.
        assert verb == "evaluate"
        assert find_model(given["model"]).entry.folder == folder
    else:
        assert verb == "tune"
        assert find_model(given["model_name"], arch=given["arch"]).entry.folder == folder
        assert given["device"] == ("auto" if device.kind == "cpu" else device.kind)
    (name,) = re.findall(r'costhub\.load_model\("(.*)"\)', text)
    assert find_model(name).entry.folder == folder


@pytest.mark.slow
def test_the_python_on_a_card_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(Path(__file__).parents[1] / "artefacts/0.1.0/data", tmp_path / "measurements")
    text = (EMBEDDED / "models/costhub/nvidia-h200-gbt/README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.setenv("COSTHUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    found: dict[str, Any] = {}
    exec(code, found)  # noqa: S102
    assert len(found["scores"]) == found["programs"].n > 0


def test_a_model_in_no_hub_is_named_by_its_folder(config: dict[str, Any], evaluation: dict[str, Any]) -> None:
    text = render(from_results(config, evaluation))

    assert "FOLDER is the folder of this card.\n\n```bash\ncosthub tune resnet18.c7 --model FOLDER --out" in text


def test_a_gpu_is_named_in_the_command_and_nothing_else_is(config: dict[str, Any], evaluation: dict[str, Any]) -> None:
    def command(kind: str) -> str:
        return use_command(from_results(config, evaluation, device={"kind": kind}, address="acme/one"))

    assert command("cuda") == "costhub tune resnet18.c7 --model acme/one --device cuda --out tuned/"
    assert command("cpu") == "costhub tune resnet18.c7 --model acme/one --out tuned/"
    assert command("cuda; rm -rf ~") == command("rocm") == "costhub evaluate acme/one --data nvidia-h200"
    named = from_results({**config, "device_id": "a; id"}, evaluation, device={"kind": "rocm"}, address="acme/one")
    assert use_command(named) == "costhub evaluate acme/one --data measurements/"


def test_a_search_on_a_gpu_is_not_promised(config: dict[str, Any], evaluation: dict[str, Any]) -> None:
    def use(device: dict[str, Any]) -> str:
        text = render(from_results(config, evaluation, device=device, address="acme/one"))
        return text.partition("## How to use it\n\n")[2].partition("```python")[0]

    assert use({"kind": "cpu"}).startswith("```bash\ncosthub tune")
    turing = use({"kind": "cuda", "isa_features": ["sm_75"]})
    assert turing.startswith("When this version of costhub was made, no search had run on a GPU yet")
    assert "costhub tune resnet18.c7 --model acme/one --device cuda" in turing
    volta = use({"kind": "cuda", "isa_features": ["sm_70"]})
    assert volta.startswith("The CUDA packages of this TVM compile for sm_75 (Turing) and later, not for sm_70, so")
    assert "costhub tune resnet18" not in volta
    assert "costhub evaluate acme/one --data nvidia-h200" in volta


def test_where_nothing_searches_the_card_says_so(config: dict[str, Any], evaluation: dict[str, Any]) -> None:
    text = render(from_results(config, evaluation, device={"kind": "rocm"}, address="acme/one"))

    assert "costhub does not measure on rocm devices" in text
    assert "\n\n```bash\ncosthub evaluate acme/one --data nvidia-h200\n```" in text
    assert "costhub tune resnet18" not in text


def test_figures_of_a_data_sheet_are_not_called_measured(
    config: dict[str, Any], evaluation: dict[str, Any], device: dict[str, Any]
) -> None:
    sheet = {**device, "probe_method": "Not probed. The | data sheet.", "probed_at": None}

    text = render(from_results(config, evaluation, device=sheet))

    assert "| theoretical peak (GFLOP/s) | 51,234 |" in text
    assert "| where these figures are from | Not probed. The \\| data sheet. |" in text
    assert "measured peak" not in text
    assert is_as_rendered(text)
    probed = render(from_results(config, evaluation, device={**sheet, "probed_at": "2026-11-20T15:28:50+00:00"}))
    assert "| measured peak (GFLOP/s) | 51,234 |" in probed
    assert "data sheet" not in probed


def headings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("#")]


def test_the_sections_come_in_the_order_of_a_reader(config: dict[str, Any], evaluation: dict[str, Any]) -> None:
    assert headings(model_card_body(from_results(config, evaluation))) == [
        "# nvidia-h200-mlp",
        "## How to use it",
        "## Device",
        "## Training data",
        "## Figures",
        "## Limits",
        "## Licence and citation",
    ]


def test_a_transfer_is_told_after_the_data_with_its_pictures(
    config: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    text = model_card_body(from_results(config, evaluation, transfer=TRANSFER))

    assert headings(text)[3:6] == ["## Training data", "## Transfer", "## Figures"]
    assert "Adapted from acme/a-mlp by `lottery`, with 1,024 programs measured on nvidia-h200." in text
    assert "the guard chose the adapted model" in text
    assert "](adaptation.png)" in text
    assert "](masks.png)" in text


def test_a_guard_that_preferred_another_model_is_told_and_what_pictures_there_are_shown(
    config: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    transfer = {**TRANSFER, "chosen": "local", "pictures": []}

    text = model_card_body(from_results(config, evaluation, transfer=transfer))

    assert "the guard chose the local model, which is the one in this folder." in text
    assert "![" not in text


@pytest.mark.parametrize(
    ("address", "author"),
    [
        ("costhub/nvidia-h200-mlp", "{the costhub contributors}"),
        ("lab/my-trees", "lab"),
        ("hf-hub:ada/my-trees", "ada"),
        ("", None),
    ],
)
def test_a_model_is_cited_as_that_of_its_owner(
    config: dict[str, Any], evaluation: dict[str, Any], address: str, author: str | None
) -> None:
    card = from_results(config, evaluation, address=address)

    cited = [line for line in model_card_body(card).splitlines() if line.startswith("  author")]
    assert cited == ([f"  author = {{{author}}},"] if author else [])
    assert "the costhub contributors" in model_card_body(replace(card, version=4))


def test_a_device_without_a_descriptor_is_still_named(config: dict[str, Any], evaluation: dict[str, Any]) -> None:
    assert "## Device\n\nnvidia-h200.\n" in model_card_body(from_results(config, evaluation))


def test_a_model_without_workload_rows_shows_totals_only(config: dict[str, Any], evaluation: dict[str, Any]) -> None:
    text = model_card_body(from_results(config, {**evaluation, "workloads": []}))

    assert "| pairwise | 0.889 |" in text
    assert "By operator" not in text
    assert "weakest" not in text


def test_the_noise_floor_is_the_one_of_the_evaluation(config: dict[str, Any], evaluation: dict[str, Any]) -> None:
    text = model_card_body(from_results(config, {**evaluation, "noise_floor": 0.07}))

    assert "differ by more than 7%" in text
    assert "differ by less than 7% count as equal" in text
