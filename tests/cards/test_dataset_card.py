from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import DatasetCard as HubCard
from hypothesis import given, settings
from hypothesis import strategies as st

from costhub.cards.card_check import check_card_text
from costhub.cards.dataset_card import (
    PICTURES,
    SAMPLE,
    DatasetCard,
    complete_dataset_card,
    dataset_card_body,
    parse,
    recorded_changes,
    render,
    with_change,
)
from costhub.cards.markdown import split
from costhub.dataset.readme import CONFIGS, readme_text
from costhub.errors import DataError
from costhub.hub.catalogue.hubs import EMBEDDED, dataset_folders

AWKWARD = (
    *(
        "a|b",
        "it's",
        'say "so"',
        "key: value",
        "- item",
        "# head",
        "```",
        "~~~",
        "---",
        "...",
        "a\nb",
        "\r\n",
    ),
    *(
        "Größe",
        "日本語",
        "🚀",
        "no",
        "1e5",
        "1:30",
        "2026-11-20",
        "null",
        "&a",
        "*a",
        "!!str",
        "{x}",
        "[l](u)",
    ),
    *("\u2028", "\x85", "\ufeff", " ", "%", "@x", "`", "\\", "\t"),
)
TEXT = st.lists(
    st.sampled_from(AWKWARD) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    min_size=1,
    max_size=3,
).map("".join)
COUNT = st.integers(0, 10**12)
DEVICES = st.fixed_dictionaries(
    {"device_id": TEXT, "rows": COUNT, "ok": COUNT, "workloads": COUNT},
    optional={"model_name": TEXT, "cores": st.integers(1, 512), "isa_features": st.lists(TEXT, max_size=2)},
)
CHANGES = st.fixed_dictionaries(
    {"date": TEXT, "version": TEXT | st.none(), "rows": COUNT, "added": st.integers(), "revision": TEXT}
)
CARDS = st.builds(
    DatasetCard,
    name=TEXT,
    address=TEXT,
    licences=st.lists(TEXT.filter(lambda text: bool(text.strip())), min_size=1, max_size=2),
    devices=st.lists(DEVICES, max_size=3),
    rows=st.integers(1, 10**12),
    ok=COUNT,
    workloads=COUNT,
    operators=st.dictionaries(TEXT, COUNT, max_size=3),
    tvm_versions=st.lists(TEXT, max_size=2),
    contributors=st.lists(TEXT, max_size=2),
    schema_version=st.integers(1, 9),
    revision=TEXT,
    splits=st.lists(TEXT, max_size=2),
    sample_rows=COUNT,
    pictures=st.lists(st.sampled_from(list(PICTURES)), max_size=1),
    changes=st.lists(CHANGES, max_size=3),
    warned_rows=st.dictionaries(TEXT, COUNT, max_size=2),
)

CARD = DatasetCard(
    name="acme/h200",
    address="hf-hub:acme/h200",
    licences=["CC-BY-4.0"],
    devices=[{"device_id": "nvidia-h200", "rows": 12_000, "ok": 11_000, "workloads": 40, "cores": 132}],
    rows=12_000,
    ok=11_000,
    workloads=40,
    operators={"conv2d": 30, "softmax": 10},
    tvm_versions=["0.27.0"],
    contributors=["ada"],
    schema_version=2,
    revision="0123456789ab",
    splits=["held-out"],
    sample_rows=100,
    pictures=["latencies.png"],
    changes=[
        {"date": "2026-01-02", "version": "v1", "rows": 9_000, "added": 9_000, "revision": "a"},
        {"date": "2026-02-03", "version": None, "rows": 12_000, "added": 3_000, "revision": "b"},
    ],
)


@settings(max_examples=25)
@given(CARDS)
def test_every_card_is_read_back_as_it_was_rendered(card: DatasetCard) -> None:
    text = render(card)

    assert parse(text) == card
    assert complete_dataset_card(text, card) == text


@settings(max_examples=25)
@given(CARDS)
def test_no_text_from_elsewhere_makes_a_heading_or_opens_a_fence(card: DatasetCard) -> None:
    plain = split(render(replace(CARD, changes=card.changes or CARD.changes)))[1]
    body = split(render(replace(card, changes=card.changes or CARD.changes)))[1]

    def frame(text: str) -> list[str]:
        return [line[:2] for line in text.split("\n") if line.startswith(("#", "```"))]

    assert frame(body) == frame(plain)


def test_a_card_says_all_that_a_reader_asks_for() -> None:
    text = render(CARD)
    body = split(text)[1]

    headings = [line for line in body.splitlines() if line.startswith("## ")]
    assert headings == [
        *("## How to use it", "## Devices", "## What is in it", "## Configurations", "## Columns"),
        *("## Limits", "## Changes", "## Licence", "## Citation"),
    ]
    assert 'costhub.load_measurements("hf-hub:acme/h200", format="pandas")' in body
    assert "| cores | 132 |" in body
    assert "| `record_id` | string |" in body
    assert "| nvidia-h200 | 12,000 | 11,000 | 40 |" in body
    assert "1,000 rows have no latency (8.3%)" in body
    assert "![Latencies of the measured programs, by operator](latencies.png)" in body
    assert "year = {2026}" in body
    check_card_text(body, "README.md")


def test_one_row_is_one_row_and_a_name_may_end_with_a_full_stop() -> None:
    card = replace(CARD, ok=CARD.rows - 1, contributors=["Ada L."], warned_rows={"CH060": 1})
    body = split(render(card))[1]

    assert "- 1 row has no latency (0.0%)" in body
    assert "- 1 row does not keep the rule CH060" in body
    assert "Measured by Ada L.\n" in body


def test_the_changes_come_newest_first() -> None:
    body = split(render(CARD))[1]

    newest = body.index("| 2026-02-03 | - | +3,000 | 12,000 | b |")
    assert newest < body.index("| 2026-01-02 | v1 | +9,000 | 9,000 | a |")


def test_what_a_hub_files_it_under_is_written_over_the_readme_of_a_new_folder() -> None:
    text = complete_dataset_card(readme_text(), CARD)
    block = split(text)[0]

    assert text == render(CARD)
    assert (block["license"], block["size_categories"]) == ("cc-by-4.0", ["10K<n<100K"])
    assert block["tags"] == ["costhub", "tvm", "cost-model", "device:nvidia-h200", "tvm:0.27.0"]
    assert block["configs"][: len(CONFIGS)] == list(CONFIGS)
    assert [entry["config_name"] for entry in block["configs"][len(CONFIGS) :]] == [SAMPLE, "nvidia-h200"]


def test_the_next_version_is_written_over_the_card_of_the_last() -> None:
    grown = replace(CARD, rows=13_000, ok=12_000)

    assert complete_dataset_card(render(CARD), grown) == render(grown)


def test_what_people_wrote_stays() -> None:
    own = {"config_name": "mine", "data_files": "mine/*.csv"}
    text = "---\ntags: [mine, 'device:old']\nlicense_name: x\npretty_name: Data\nconfigs:\n- %s\n---\n# T\n"

    once = complete_dataset_card(text % own, CARD)
    block, body = split(once)

    assert complete_dataset_card(once, CARD) == once
    assert parse(once) == CARD
    assert body == "# T\n"
    assert (block["tags"][-1], block["pretty_name"], block["configs"][-1]) == ("mine", "Data", own)
    assert "device:old" not in block["tags"]
    assert "license_name" not in block


def test_the_name_that_costhub_gave_follows_that_of_the_data() -> None:
    renamed = complete_dataset_card(render(replace(CARD, name="h200")), CARD)

    assert renamed == render(CARD)
    assert split(renamed)[0]["pretty_name"] == "acme/h200: measured tensor programs"


def imported(contributor: str, rows: int, **others: Any) -> dict[str, Any]:
    terms = {"licence": "MIT", "tvm_version": "0.27.0", "transplanted_from": "", "places": []}
    return {"contributor": contributor, "rows": rows, **terms, **others}


@pytest.mark.parametrize(
    ("contributors", "origins", "sources"),
    [
        (["ada"], [], ["original"]),
        ([], [], ["original"]),
        (["bob"], [imported("bob", 12_000, only_imported=True)], ["extended|other"]),
        (["bob"], [imported("bob", 9_000, only_imported=True)], ["original", "extended|other"]),
        ([], [imported("", 12_000)], ["extended|other"]),
        (["ada"], [imported("ada", 12_000)], ["original"]),  # somebody's own database
        (["ada/logs"], [imported("ada/logs", 12_000)], ["extended|other-ada-logs"]),
        (["ada/logs", "bob"], [imported("ada/logs", 9_000)], ["original", "extended|other-ada-logs"]),
    ],
)
def test_rows_that_nobody_is_known_to_have_measured_for_this_dataset_are_not_original(
    contributors: list[str], origins: list[dict[str, Any]], sources: list[str]
) -> None:
    card = replace(CARD, contributors=contributors, origins=origins)

    assert split(render(card))[0]["source_datasets"] == sources


@pytest.mark.parametrize("folder", dataset_folders().values(), ids=lambda folder: folder.name)
def test_a_shipped_dataset_is_called_by_its_address(folder: Path) -> None:
    block = split((folder / "README.md").read_text(encoding="utf-8"))[0]

    assert block["pretty_name"] == f"costhub/{folder.name}: measured tensor programs"
    assert block["costhub"]["name"] == block["costhub"]["address"]


def test_a_sentence_added_to_a_card_stays_and_so_does_the_rest() -> None:
    text = render(CARD) + "\nThank you, Bob.\n"
    grown = replace(CARD, rows=13_000)

    again = complete_dataset_card(text, grown)

    assert again.endswith(split(text)[1])
    assert parse(again) == grown


def test_the_configuration_of_a_device_that_is_gone_goes() -> None:
    one = replace(CARD, devices=[{**CARD.devices[0], "device_id": "old"}])

    names = [c["config_name"] for c in split(complete_dataset_card(render(one), CARD))[0]["configs"]]

    assert names == ["measurements", "workloads", "devices", SAMPLE, "nvidia-h200"]


@pytest.mark.parametrize(
    ("licences", "expected"),
    [
        (["MIT", "CC-BY-4.0"], {"license": ["cc-by-4.0", "mit"]}),
        (["LicenseRef-Lab"], {"license": "other", "license_name": "licenseref-lab"}),
    ],
)
def test_several_licences_and_unknown_ones_are_announced(licences: list[str], expected: dict[str, Any]) -> None:
    block = split(render(replace(CARD, licences=licences)))[0]

    assert {key: value for key, value in block.items() if key.startswith("license")} == expected


@pytest.mark.parametrize(
    ("rows", "size"), [(999, "n<1K"), (1_000, "1K<n<10K"), (9_999_999, "1M<n<10M"), (2 * 10**7, "10M<n<100M")]
)
def test_the_size_is_one_that_the_hub_files_by(rows: int, size: str) -> None:
    assert split(render(replace(CARD, rows=rows)))[0]["size_categories"] == [size]


SHIPPED = sorted(EMBEDDED.glob("datasets/*/*"))


def number_of(size: str) -> int:
    """What the hub's `10K` stands for."""
    return int(size.replace("K", "000").replace("M", "000000"))


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_the_hubs_client_reads_a_shipped_card_whole(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    block, body = split(text)

    card = HubCard(text, ignore_metadata_errors=False)

    assert card.data.to_dict() == block
    assert card.text.strip() == body.strip()
    # The hub's page may write a card back, as its client does.
    assert parse(str(card)) == parse(text)


@pytest.mark.filterwarnings("default")  # datasets' own
@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_a_shipped_card_is_filed_under_words_that_the_hub_knows(folder: Path) -> None:
    pytest.importorskip("datasets")
    text = (folder / "README.md").read_text(encoding="utf-8")
    known = {
        name: json.loads(files("datasets.utils.resources").joinpath(f"{name}.json").read_text(encoding="utf-8"))
        for name in ("size_categories", "creators")
    }

    data = HubCard(text, ignore_metadata_errors=False).data
    (size,) = data.size_categories
    least, _, most = size.partition("<n<")

    assert size in known["size_categories"]
    assert number_of(least) <= parse(text).rows < number_of(most)
    assert set(data.annotations_creators) <= set(known["creators"]["annotations"])


@pytest.mark.filterwarnings("default")  # datasets' own
@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_the_configurations_of_a_shipped_card_are_sound_and_find_files(folder: Path) -> None:
    metadata = pytest.importorskip("datasets.utils.metadata")
    text = (folder / "README.md").read_text(encoding="utf-8")

    configs = metadata.MetadataConfigs.from_dataset_card_data(HubCard(text, ignore_metadata_errors=False).data)

    assert configs.get_default_config_name() == "measurements"
    assert {row["device_id"] for row in parse(text).devices if row["rows"]} < set(configs)
    for name, config in configs.items():
        (entry,) = config["data_files"]
        assert list(folder.glob(entry["path"])), name


@pytest.mark.parametrize("licences", [[], [""], ["MIT", " "]])
def test_rows_without_a_licence_are_refused(licences: list[str]) -> None:
    with pytest.raises(DataError, match="have no licence"):
        complete_dataset_card(readme_text(), replace(CARD, licences=licences))


def test_the_same_data_are_no_new_version() -> None:
    first = with_change([], date="2026-01-01", version="v1", rows=5, revision="a")
    again = with_change(first, date="2026-01-09", version="v2", rows=5, revision="a")
    less = with_change(first, date="2026-02-01", version=None, rows=3, revision="b")

    assert again == first == [{"date": "2026-01-01", "version": "v1", "rows": 5, "added": 5, "revision": "a"}]
    assert [change["added"] for change in less] == [5, -2]


def test_the_changes_of_a_card_are_known_and_of_another_text_there_are_none() -> None:
    assert recorded_changes(render(CARD)) == CARD.changes
    assert recorded_changes("# Data") == recorded_changes("---\na: 1\n---\n") == []
    with pytest.raises(DataError, match=r"has version 2, this costhub reads 1\. Update costhub"):
        recorded_changes(render(CARD).replace("dataset_card_version: 1", "dataset_card_version: 2"))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("\n  rows: 12000\n", "\n", "The card lacks rows"),
        ("\n  rows: 12000\n", "\n  rows: many\n", "wrong kind .rows."),
        ("    added: 9000\n", "    added: [1]\n", "wrong kind .changes."),
        ("warned_rows: {}", "warned_rows: {CH060: many}", "wrong kind .warned_rows."),
        ("dataset_card_version: 1", "card_version: 1", "was not written by costhub"),
    ],
)
def test_a_card_with_other_values_is_refused(old: str, new: str, sentence: str) -> None:
    text = render(CARD)

    assert old in text
    with pytest.raises(DataError, match=sentence):
        parse(text.replace(old, new))


EMPTY = DatasetCard(
    name="data",
    address="data",
    licences=["MIT"],
    devices=[],
    rows=0,
    ok=0,
    workloads=0,
    operators={},
    tvm_versions=[],
    contributors=[],
    schema_version=2,
    revision="e3b0c44298fc",
    splits=[],
)


def test_what_is_not_known_leaves_no_gap() -> None:
    text = dataset_card_body(EMPTY)

    assert "None." in text
    assert "## Changes" not in text
    assert "`sample`" not in text
    assert "![" not in text
    assert "year" not in text
    assert "`costhub split` makes splits." in text
    assert "the costhub contributors" in text


def test_an_address_is_a_text_of_python() -> None:
    text = dataset_card_body(DatasetCard(**{**EMPTY.__dict__, "address": 'a"b\\c'}))

    assert 'costhub.load_measurements("a\\"b\\\\c", format="pandas")' in text
