"""The block of a model card, read by the Hugging Face hub's own classes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import EvalResult
from huggingface_hub import ModelCard as HubCard

from costhub.cards.hub_metadata import figures_by_dataset, hub_keys, named_datasets
from costhub.cards.model_card import from_results, is_as_rendered, parse, render
from costhub.cards.model_facts import METRICS
from costhub.hub.catalogue.hubs import EMBEDDED, dataset_folders, read_config
from costhub.hub.dataset_documents import tables_revision

SHIPPED = sorted(EMBEDDED.glob("models/*/*"))
ONE, OTHER = "lab/acme@0123456789ab", "lab/other@ba9876543210"


def evaluations(text: str) -> list[EvalResult]:
    """What the hub's client makes of the model index; it raises where the index is not one."""
    results = HubCard(text, ignore_metadata_errors=False).data.eval_results
    assert results is not None
    return results


def test_datasets_and_figures_are_read_by_the_hubs_client(config: dict[str, Any], evaluation: dict[str, Any]) -> None:
    text = render(from_results({**config, "datasets": [ONE, OTHER], "test_datasets": [ONE]}, evaluation))
    data = HubCard(text, ignore_metadata_errors=False).data

    assert data.datasets == ["lab/acme", "lab/other"]
    assert (data.pipeline_tag, data.library_name, data.metrics) == ("tabular-regression", "costhub", list(METRICS))
    results = evaluations(text)
    assert {each.metric_type: each.metric_value for each in results} == evaluation["totals"]
    assert {(each.dataset_type, each.dataset_revision) for each in results} == {("lab/acme", "0123456789ab")}
    assert {(each.dataset_config, each.dataset_split) for each in results} == {("measurements", "train")}


def on_devices(evaluation: dict[str, Any], *devices: str) -> dict[str, Any]:
    """The evaluation with its rows on these devices, in turn."""
    rows = [{**row, "device_id": device} for row, device in zip(evaluation["workloads"], devices, strict=True)]
    return {**evaluation, "workloads": rows}


def test_each_of_several_datasets_has_its_own_figures(config: dict[str, Any], evaluation: dict[str, Any]) -> None:
    known = {"lab/acme": ["acme-one", "acme-two"], "lab/other": ["other"]}
    figures = {**on_devices(evaluation, "acme-one", "acme-two", "other"), "datasets": known}
    text = render(from_results({**config, "test_datasets": [ONE, OTHER]}, figures))

    found = {
        (each.dataset_type, each.dataset_revision, each.metric_type): each.metric_value for each in evaluations(text)
    }
    assert found["lab/acme", "0123456789ab", "top_1"] == pytest.approx(0.85)  # the mean of two of three rows
    assert found["lab/acme", "0123456789ab", "pairwise"] == pytest.approx(0.9)
    assert found["lab/other", "ba9876543210", "top_1"] == pytest.approx(0.625)
    assert ("lab/other", "ba9876543210", "pairwise") not in found  # its only row has none
    assert {key[:2] for key in found} == {("lab/acme", "0123456789ab"), ("lab/other", "ba9876543210")}
    assert is_as_rendered(text)


@pytest.mark.parametrize(
    "known",
    [
        None,
        {"lab/acme": ["acme-one"], "lab/other": ["other"]},
        {"lab/acme": ["acme-one", "acme-two", "other"], "lab/other": ["other"]},
        {"lab/acme": ["acme-one", "acme-two", "other"], "lab/other": ["third"]},
    ],
    ids=["nothing", "not of every row", "two for one row", "no row of one"],
)
def test_figures_whose_datasets_are_not_known_name_none_as_theirs(
    config: dict[str, Any], evaluation: dict[str, Any], known: dict[str, list[str]] | None
) -> None:
    figures = {**on_devices(evaluation, "acme-one", "acme-two", "other"), "datasets": known}
    card = from_results({**config, "datasets": [ONE, OTHER], "test_datasets": [ONE, OTHER]}, figures)

    ((dataset, shown),) = figures_by_dataset(card)
    assert dataset["type"] == "measurements"
    assert f"data {ONE}, {OTHER}" in dataset["name"]
    assert "revision" not in dataset
    assert shown == evaluation["totals"]


def test_a_stranger_cannot_give_figures_to_another_dataset(config: dict[str, Any], evaluation: dict[str, Any]) -> None:
    card = from_results({**config, "test_datasets": [ONE, OTHER]}, evaluation)
    rows = [{"dataset": name, **evaluation["totals"]} for name in (ONE, "costhub/nvidia-h200@aea010585955")]

    assert [dataset["type"] for dataset, _ in figures_by_dataset(replace(card, tested=rows))] == ["measurements"]


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("costhub/any-cpu-conditioned", "costhub/any-cpu-conditioned"),
        ("hf-hub:lab/acme-mlp@v1", "lab/acme-mlp"),
        ("local/mine", None),
        ("not an address", None),
    ],
)
def test_an_adapted_model_names_its_base_if_that_has_a_page(
    config: dict[str, Any], evaluation: dict[str, Any], base: str, expected: str | None
) -> None:
    data = HubCard(render(from_results({**config, "base": base}, evaluation))).data.to_dict()

    assert data.get("base_model") == expected
    assert data.get("base_model_relation") == (expected and "finetune")


def test_a_stranger_cannot_name_what_is_no_dataset() -> None:
    assert named_datasets("lab/a b@0123456789ab, ../x@0123456789ab, lab/c@main, " + ONE) == {"lab/acme": "0123456789ab"}
    assert named_datasets(["lab/acme@0123456789ab"]) == {}


def test_a_card_of_version_4_stays_as_it_was(config: dict[str, Any], evaluation: dict[str, Any]) -> None:
    card = replace(from_results({**config, "datasets": [ONE], "test_datasets": [ONE]}, evaluation), version=4)

    assert "pipeline_tag" not in render(card).split("costhub:\n")[0]
    assert [dataset["type"] for dataset, _ in figures_by_dataset(card)] == ["measurements"]
    assert hub_keys(card)["datasets"] == ["lab/acme"]


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_a_shipped_model_names_datasets_that_are_shipped_in_that_revision(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    named = named_datasets(parse(text).training["datasets"])
    shipped = dataset_folders()

    assert named == {name: tables_revision(shipped[name]) for name in named}
    assert list(named) == HubCard(text, ignore_metadata_errors=False).data.datasets
    assert [f"{name}@{revision}" for name, revision in named.items()] == read_config(folder)["datasets"]
    tested = named_datasets(parse(text).training["test_datasets"])
    assert [(each.dataset_type, each.dataset_revision) for each in evaluations(text)] == [
        item for item in tested.items() for _ in METRICS
    ]
