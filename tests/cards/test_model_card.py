from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.cards.adaptation import PICTURES
from costhub.cards.model_card import from_results, is_as_rendered, parse, render
from costhub.cards.model_facts import CARD_VERSION, ModelCard
from costhub.cards.model_plots import EVALUATION_PICTURE
from costhub.errors import DataError
from costhub.hub.catalogue.hubs import EMBEDDED

AWKWARD = (
    *("a|b", "it's", 'say "so"', "key: value", "- item", "# head", "```", "---", "a\nb", "\r\n", "[l](u)"),
    *(
        "no",
        "1e5",
        "1:30",
        "2026-11-20",
        "null",
        "&a",
        "*a",
        "!!str",
        "{x}",
        "\u2028",
        "\x85",
        "\ufeff",
        "\\",
    ),
)
TEXT = st.sampled_from(AWKWARD) | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
SHARE = st.floats(0, 1)
FIGURES = st.fixed_dictionaries(dict.fromkeys(("top_1", "top_5", "pairwise", "spearman"), SHARE))
COUNTS = {"programs": st.integers(0, 10**6), "top_1": SHARE | st.none()}
OPTIONAL = {"top_5": SHARE, "pairwise": SHARE | st.none(), "spearman": SHARE}
ROWS = st.builds(
    dict[str, Any],
    st.fixed_dictionaries({"workload": TEXT, "operator": TEXT, **COUNTS}, optional=OPTIONAL),
)


def summary_rows(key: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    counts = {"workloads": st.integers(0, 400), **COUNTS}
    return st.lists(st.fixed_dictionaries({key: TEXT, **counts}, optional=OPTIONAL), max_size=3)


CARDS = st.builds(
    ModelCard,
    name=TEXT,
    address=st.sampled_from(["", "acme/one-mlp", "hf-hub:acme/one.mlp"]),
    held_out=st.fixed_dictionaries(dict.fromkeys(("workloads", "devices", "programs"), st.integers(0, 10**6))),
    operators=summary_rows("operator"),
    devices=summary_rows("device_id"),
    device_id=TEXT,
    arch=TEXT,
    feature_spec=TEXT,
    licence=TEXT,
    training=st.dictionaries(st.sampled_from(["data_rows", "seed"]), st.integers())
    | st.dictionaries(st.sampled_from(["data_hash", "created", "base"]), TEXT)
    | st.fixed_dictionaries({"options": st.dictionaries(TEXT, st.integers() | SHARE | TEXT, max_size=3)}),
    versions=st.dictionaries(TEXT, TEXT, max_size=3),
    totals=FIGURES,
    noise_floor=st.floats(0, 0.5),
    device=st.fixed_dictionaries(
        {}, optional={"device_id": TEXT, "cores": st.integers(1), "isa_features": st.lists(TEXT)}
    ),
    transfer=st.just({})
    | st.fixed_dictionaries(
        {
            "source": TEXT,
            "method": TEXT,
            "trials": st.integers(0),
            "chosen": TEXT,
            "pictures": st.lists(st.sampled_from(list(PICTURES)), unique=True),
        }
    ),
    pictures=st.lists(st.just(EVALUATION_PICTURE), max_size=1),
)


@given(CARDS)
def test_every_card_is_read_back_as_it_was_rendered(card: ModelCard) -> None:
    text = render(card)

    assert parse(text) == card
    assert is_as_rendered(text)


@given(CARDS, st.lists(ROWS, max_size=4), st.sampled_from([1, 2, 3]))
def test_every_card_of_an_older_version_is_read_back_too(
    card: ModelCard, rows: list[dict[str, Any]], version: int
) -> None:
    old = replace(card, version=version, workloads=rows, address="", held_out={}, operators=[], devices=[])
    text = render(old)

    assert parse(text) == old
    assert is_as_rendered(text)


def test_a_card_shows_the_figures_of_its_evaluation(
    config: dict[str, Any], evaluation: dict[str, Any], device: dict[str, Any]
) -> None:
    text = render(from_results(config, evaluation, device=device))

    assert "# nvidia-h200-mlp\n" in text
    assert "On 3 held-out workloads (144 programs); the model was trained on none of them." in text
    assert "| top_1 | 0.857 | best latency" in text
    assert "| conv2d | 2 | 104 | 0.850 | 0.990 | 0.900 | 0.800 |" in text
    assert "| softmax | 1 | 40 | 0.625 | 0.990 | - | 0.800 |" in text
    assert "bert softmax" not in text
    assert "It is weakest on softmax" in text
    assert "| L1 data cache per core (KiB) | 256 |" in text
    assert "L3" not in text
    assert "year = {2026}" in text


def test_the_card_of_a_model_of_several_devices_names_them_and_says_how_to_bind_it(
    config: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    rows = [{**row, "device_id": name} for row in evaluation["workloads"] for name in ("a", "b")]
    told = {**config, "arch": "conditioned", "device_id": "any-cpu", "train_devices": ["a", "b"]}

    card = from_results(told, {**evaluation, "workloads": rows})

    text = render(card)
    assert card.training["devices"] == "a, b"
    assert "It was trained on a, b." in text
    assert "# bound to this machine" in text
    assert "On 3 held-out workloads, measured on up to 2 devices each (288 programs)" in text
    assert "| a | 3 | 144 | 0.775 | 0.990 | 0.900 | 0.800 |" in text
    assert "| conv2d | 2 | 208 | 0.850 |" in text
    assert "workload on each device, and their means" not in text  # without a picture
    assert parse(text) == card


def test_the_hugging_face_client_reads_the_metadata(config: dict[str, Any], evaluation: dict[str, Any]) -> None:
    from huggingface_hub import ModelCard as HubCard

    data = HubCard(render(from_results(config, evaluation))).data

    assert (data.license, data.library_name) == ("cc-by-4.0", "costhub")
    assert {"device:nvidia-h200", "arch:mlp", "tvm:0.27.0.post1"} <= set(data.tags)
    assert {r.metric_type: r.metric_value for r in data.eval_results} == evaluation["totals"]


def test_a_licence_the_hub_does_not_know_is_named(config: dict[str, Any], evaluation: dict[str, Any]) -> None:
    text = render(from_results({**config, "licence": "Beerware"}, evaluation))

    assert "license: other\nlicense_name: beerware\n" in text
    assert "## Licence and citation\n\nBeerware." in text


def test_without_a_transfer_the_card_is_that_of_earlier_versions(
    config: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    card = from_results(config, evaluation)

    assert "transfer" not in render(card)
    assert parse(render(card)).transfer == {}


def test_options_and_pictures_are_on_the_card(config: dict[str, Any], evaluation: dict[str, Any]) -> None:
    options = {"hidden": 512, "rate": 7e-4, "layer_norm": True, "scaler": {"mean": [0.0]}}

    text = render(from_results({**config, "options": options}, evaluation, pictures=[EVALUATION_PICTURE]))

    assert "| options | hidden = 512, rate = 0.0007, layer_norm = True |" in text
    assert "](evaluation.png)" in text
    assert is_as_rendered(text)


SHIPPED = sorted(EMBEDDED.glob("models/*/*"))


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_a_shipped_card_is_short_of_this_version_and_as_rendered(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")

    assert is_as_rendered(text)
    assert parse(text).version == CARD_VERSION
    # Each device that it was tested on takes a line of the figures and one of the table; each further dataset, seven of
    # the model index, and two.
    devices, datasets = (text.count(each) for each in ("- {device_id: ", "    dataset: {type: "))
    assert text.count("\n") < max(155, 145 + 2 * devices) + 9 * (datasets - 1)


@pytest.mark.parametrize(
    "address",
    ["one", "a/b/c", "a/b; rm -rf ~", "$(id)/b", "a/b\n", "../b", "-a/b", "hf-hub:a", "https://a/b", "a/b@v1", 7],
)
def test_an_address_that_is_none_is_on_no_card(
    config: dict[str, Any], evaluation: dict[str, Any], address: Any
) -> None:
    with pytest.raises(DataError, match="ORG/NAME was expected"):
        from_results(config, evaluation, address=address)
    with pytest.raises(DataError, match="ORG/NAME was expected"):
        parse(render(replace(from_results(config, evaluation), address=address)))


@pytest.mark.parametrize("key", ["arch", "device_id", "feature_spec", "licence"])
def test_a_configuration_with_a_gap_makes_no_card(config: dict[str, Any], evaluation: dict[str, Any], key: str) -> None:
    del config[key]

    with pytest.raises(DataError, match=f"The configuration of the model lacks {key}"):
        from_results(config, evaluation)


@pytest.mark.parametrize("key", ["totals", "workloads", "noise_floor"])
def test_an_evaluation_with_a_gap_makes_no_card(config: dict[str, Any], evaluation: dict[str, Any], key: str) -> None:
    del evaluation[key]

    with pytest.raises(DataError, match=f"The evaluation lacks {key}"):
        from_results(config, evaluation)


def test_figures_on_workloads_it_was_trained_on_make_no_card(
    config: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    for i, row in enumerate(evaluation["workloads"]):
        row["workload_id"] = f"id{i}"

    card = from_results({**config, "train_workloads": ["a", "b"]}, evaluation)
    assert card.training["workloads"] == 2
    with pytest.raises(DataError, match="was trained on 1 of the 3 workloads it was evaluated on"):
        from_results({**config, "train_workloads": ["a", "id1"]}, evaluation)


def test_a_figure_typed_by_hand_is_found(config: dict[str, Any], evaluation: dict[str, Any]) -> None:
    text = render(from_results(config, evaluation))

    assert is_as_rendered(text)
    assert not is_as_rendered(text.replace("| top_1 | 0.857 |", "| top_1 | 0.957 |"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# Title", "does not begin with a block of YAML"),
        ("---\nlicense: mit\n---\n", "was not written by costhub"),
        ("---\ncosthub: 3\n---\n", "was not written by costhub"),
        ("---\ncosthub: {card_version: 99}\n---\n", "has version 99, this costhub reads up to 5"),
        ("---\ncosthub: {card_version: 1, name: x}\n---\n", "The card lacks arch, device, device_id.*, workloads,"),
        ("---\ncosthub: {card_version: 4, name: x}\n---\n", "The card lacks arch, device, .*, held_out, .*operators"),
    ],
)
def test_a_text_that_is_no_card_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        parse(text)


TRANSFER = {
    "source": "acme/a-mlp",
    "method": "lottery",
    "trials": 1024,
    "chosen": "adapted",
    "pictures": ["adaptation.png", "masks.png"],
}
