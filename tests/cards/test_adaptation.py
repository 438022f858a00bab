from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.cards.adaptation import by_layer, masks_table, transfer_facts
from costhub.errors import DataError

TOLD = {"source": "acme/a-mlp", "method": "lottery", "trials": 64, "chosen": "local", "curve": []}
SHARE = st.floats(0, 1)
EPOCHS = st.lists(st.fixed_dictionaries({"a": SHARE, "b": SHARE}), min_size=1, max_size=4)


def test_the_facts_name_the_pictures_that_are_there() -> None:
    facts = transfer_facts(TOLD, {"masks.png", "model.safetensors", "adaptation.png"})

    assert facts == {
        "source": "acme/a-mlp",
        "method": "lottery",
        "trials": 64,
        "chosen": "local",
        "pictures": ["adaptation.png", "masks.png"],
    }
    assert transfer_facts(TOLD, [])["pictures"] == []


def test_where_measuring_ended_is_a_text_among_the_facts() -> None:
    stopped = {"rule": "gain", "said": "Nothing new. Measuring ended after 64 of 256 trials."}

    assert transfer_facts({**TOLD, "stopped": stopped}, [])["stopped"] == stopped["said"]
    assert "stopped" not in transfer_facts({**TOLD, "stopped": None}, [])
    for wrong in ("yes", {"rule": "gain"}, {"said": 3}):
        with pytest.raises(DataError, match="does not say why measuring ended"):
            transfer_facts({**TOLD, "stopped": wrong}, [])


def test_a_gap_in_what_is_told_is_refused() -> None:
    with pytest.raises(DataError, match=r"adaptation\.json of the model lacks source, chosen"):
        transfer_facts({**TOLD, "source": None, "chosen": None}, [])


@given(EPOCHS)
def test_networks_that_agree_have_their_own_shares_as_means(epochs: list[dict[str, float]]) -> None:
    found = by_layer([epochs, epochs])

    for layer in ("a", "b"):
        assert found[layer] == pytest.approx([shares[layer] for shares in epochs])


def test_a_layer_is_the_mean_over_the_networks_that_have_it() -> None:
    assert by_layer([[{"a": 0.5}], [{"a": 0.25, "b": 1.0}], []]) == {"a": [0.375], "b": [1.0]}
    assert by_layer([]) == {}


def test_an_epoch_in_which_nothing_of_a_layer_could_stay_counts_as_none() -> None:
    assert by_layer([[{"a": 0.5}, {}, {"a": 1.0}]]) == {"a": [0.5, 0.0, 1.0]}
    assert by_layer([[{}, {"a": 0.5}], [{"a": 1.0}, {"a": 0.0}]]) == {"a": [0.5, 0.25]}


def test_the_table_has_first_and_last_share_and_the_mean_of_what_was_kept() -> None:
    masks = {
        "transferable": [[{"w": 0.5}, {"w": 0.125}, {"w": 0.25}]],
        "kept": [[{"w": 0.5}, {"w": 1.0}]],
    }

    table = masks_table({"method": "lottery", **masks})

    assert table.splitlines()[1].split() == [
        "layer",
        "first",
        "epoch",
        "last",
        "epoch",
        "kept",
        "from",
        "epoch",
        "to",
        "epoch",
    ]
    assert table.splitlines()[2].split() == ["w", "0.500", "0.250", "0.750"]


def test_after_a_single_epoch_nothing_can_have_been_kept() -> None:
    table = masks_table({"method": "lottery", "transferable": [[{"w": 0.5}]], "kept": [[]]})

    assert table.splitlines()[-1].split() == ["w", "0.500", "0.500", "-"]


def test_a_method_without_masks_says_so() -> None:
    assert "frozen has no masks" in masks_table({"method": "frozen", "transferable": [], "kept": []})
