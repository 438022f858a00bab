from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.cards.adaptation import PICTURES
from costhub.cards.model_card import ModelCard, from_results, is_as_rendered, model_card_body, parse, render
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
ROWS = st.builds(
    dict[str, Any],
    st.fixed_dictionaries(
        {"workload": TEXT, "operator": TEXT, "programs": st.integers(0, 10**6), "top_1": SHARE | st.none()},
        optional={"top_5": SHARE, "pairwise": SHARE | st.none(), "spearman": SHARE},
    ),
)
CARDS = st.builds(
    ModelCard,
    name=TEXT,
    device_id=TEXT,
    arch=TEXT,
    feature_spec=TEXT,
    licence=TEXT,
    training=st.dictionaries(st.sampled_from(["data_rows", "seed"]), st.integers())
    | st.dictionaries(st.sampled_from(["data_hash", "created", "base"]), TEXT)
    | st.fixed_dictionaries({"options": st.dictionaries(TEXT, st.integers() | SHARE | TEXT, max_size=3)}),
    versions=st.dictionaries(TEXT, TEXT, max_size=3),
    totals=FIGURES,
    workloads=st.lists(ROWS, max_size=4),
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


def test_a_card_shows_the_figures_of_its_evaluation(
    config: dict[str, Any], evaluation: dict[str, Any], device: dict[str, Any]
) -> None:
    text = render(from_results(config, evaluation, device=device))

    assert "# nvidia-h200-mlp\n" in text
    assert "On 3 held-out workloads (144 measured programs)" in text
    assert "| top_1 | 0.857 | best latency" in text
    assert "| conv2d | 2 | 104 | 0.850 | 0.990 | 0.900 | 0.800 |" in text
    assert "| bert softmax | softmax | 40 | 0.625 | 0.990 | - | 0.800 |" in text
    assert "It is weakest on softmax" in text
    assert "| L1 data cache per core (KiB) | 256 |" in text
    assert "L3" not in text
    assert 'costhub.pull("nvidia-h200", arch="mlp")' in text
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
    assert "model.bind(identify())" in text
    assert "on one or more of 2 devices each" in text
    assert "| device |" in text
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
    assert "## Licence\n\nBeerware." in text


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


@pytest.mark.parametrize("version", [1, 2])
def test_a_card_of_an_older_version_keeps_its_sentences(
    config: dict[str, Any], evaluation: dict[str, Any], version: int
) -> None:
    card = from_results(config, evaluation, transfer=TRANSFER)
    old = render(replace(card, version=version))

    assert f"card_version: {version}\n" in old
    assert "It is no latency" in old
    assert "It is not a latency" in render(card)
    assert is_as_rendered(old)
    assert not is_as_rendered(old.replace(f"card_version: {version}", "card_version: 3"))


def test_the_cards_of_the_embedded_models_are_read_and_are_as_rendered() -> None:
    cards = [path.read_text(encoding="utf-8") for path in EMBEDDED.glob("models/*/*/README.md")]

    assert cards
    assert all(is_as_rendered(card) for card in cards)


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
        ("---\ncosthub: {card_version: 99}\n---\n", "has version 99, this costhub reads up to 3"),
        ("---\ncosthub: {card_version: 1, name: x}\n---\n", "The card lacks arch, device, device_id"),
    ],
)
def test_a_text_that_is_no_card_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        parse(text)


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
        "## Licence",
        "## Citation",
    ]


TRANSFER = {
    "source": "acme/a-mlp",
    "method": "lottery",
    "trials": 1024,
    "chosen": "adapted",
    "pictures": ["adaptation.png", "masks.png"],
}


def test_a_transfer_is_told_after_the_data_with_its_pictures(
    config: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    text = model_card_body(from_results(config, evaluation, transfer=TRANSFER))

    assert headings(text)[3:6] == ["## Training data", "## Transfer", "## Figures"]
    assert "Adapted from acme/a-mlp by `lottery`, with 1,024 programs measured on nvidia-h200." in text
    assert "the guard chose the adapted model" in text
    assert "made the model worse" not in text
    assert "](adaptation.png)" in text
    assert "](masks.png)" in text


def test_a_transfer_that_did_harm_says_so_and_shows_what_there_is(
    config: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    transfer = {**TRANSFER, "chosen": "local", "pictures": []}

    text = model_card_body(from_results(config, evaluation, transfer=transfer))

    assert "the guard chose the local model" in text
    assert "Transfer by lottery made the model worse here." in text
    assert "![" not in text


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


def test_the_mean_of_an_operator_leaves_out_what_has_no_figure(
    config: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    evaluation["workloads"][0]["pairwise"] = float("nan")

    assert "| conv2d | 2 | 104 | 0.850 | 0.990 | 0.850 | 0.800 |" in model_card_body(from_results(config, evaluation))
