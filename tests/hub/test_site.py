"""A model folder as the page shows it: what it records, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costhub.cards.site.facts import Leaderboard
from costhub.cards.site.site_page import MARK
from costhub.errors import ArgumentError, CosthubError, DataError
from costhub.hub import site as site_folder
from costhub.hub.catalogue.hubs import EMBEDDED, HubRoot
from costhub.hub.remote.manifest import scan, write_manifest
from costhub.hub.site import MAX_OPERATORS, read_body, read_site_model, site_contents, write_site

PNG = b"\x89PNG\r\n\x1a\n" + b"drawn" * 9


@pytest.fixture
def folder(tmp_path: Path, make_model: Any) -> Path:
    folder: Path = make_model(tmp_path / "m", device_id="acme-one", arch="mlp", top_1=0.8)
    return folder


def evaluation(folder: Path, **content: Any) -> None:
    (folder / "evaluation.json").write_text(json.dumps(content))


def test_a_shipped_model_is_read_with_its_figures_and_card(sound_model: Callable[..., Path]) -> None:
    model, pictures = read_site_model(sound_model(manifest=True), "costhub/amd-epyc-zen5-2c-mlp")

    assert (model.device_id, model.arch) == ("amd-epyc-zen5-2c", "mlp")
    assert list(model.pictures) == ["evaluation.png"]
    assert list(pictures) == [model.pictures["evaluation.png"]]
    assert list(model.figures) == list(model.errors) == ["top_1", "top_5", "pairwise"]
    assert "depthwise" in model.operators
    assert model.card is not None
    assert model.card.startswith("# amd-epyc-zen5-2c-mlp")


def test_its_size_is_that_of_all_its_files(folder: Path) -> None:
    size = sum(entry.size for entry in write_manifest(folder).files.values())

    assert read_site_model(folder, "lab/m")[0].bytes == size


def test_a_model_without_an_evaluation_shows_what_its_configuration_says(folder: Path) -> None:
    write_manifest(folder)

    model, _ = read_site_model(folder, "lab/m")
    assert (dict(model.figures), dict(model.operators), model.card) == ({"top_1": 0.8}, {}, None)


def test_pictures_are_named_by_their_content(folder: Path) -> None:
    (folder / "adaptation.png").write_bytes(PNG)
    digest = scan(folder).files["adaptation.png"].sha256
    write_manifest(folder)

    model, pictures = read_site_model(folder, "lab/m")
    assert model.pictures == {"adaptation.png": f"pictures/{digest[:16]}.png"}
    assert pictures == {f"pictures/{digest[:16]}.png": PNG}


def test_figures_that_are_no_numbers_are_left_out(folder: Path) -> None:
    rows = [{"operator": "conv", "top_1": 0.5}, {"operator": "norm", "top_1": "<b>"}, 3]
    evaluation(folder, totals={"top_1": "0.9", "top_5": float("nan"), "pairwise": 0.7}, operators=rows)
    write_manifest(folder)

    model, _ = read_site_model(folder, "lab/m")
    assert (dict(model.figures), dict(model.operators)) == ({"pairwise": 0.7}, {"conv": 0.5})


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("model.safetensors", b"other", "is damaged"),
        ("adaptation.png", b"GIF89a", "is not a PNG"),
        ("evaluation.json", b"{", "is not JSON"),
        ("evaluation.json", b"[" * 100_000, "is not JSON"),
        ("evaluation.json", b'{"totals": {"top_1": 1e300}}', r"top_1 1e\+300, expected 0 to 1"),
        (
            "evaluation.json",
            b'{"operators": [{"operator": "conv", "top_1": -1}]}',
            "conv -1, expected 0 to 1",
        ),
        ("README.md", b"---\n&a *a\n---\nx", "not YAML"),
        ("README.md", b"\xff", "not text in UTF-8"),
        ("README.md", b"x" * (2 << 20), "too long for a card"),
        ("config.json", b"{}", "which architecture and device"),
    ],
)
def test_what_is_damaged_is_refused(folder: Path, name: str, content: bytes, sentence: str) -> None:
    if name == "model.safetensors":
        write_manifest(folder)
    (folder / name).write_bytes(content)
    if name != "model.safetensors":
        write_manifest(folder)

    with pytest.raises(CosthubError, match=sentence):
        read_site_model(folder, "lab/m")


def test_too_many_operator_classes_are_refused(folder: Path) -> None:
    evaluation(folder, operators=[{"operator": str(n), "top_1": 0.5} for n in range(MAX_OPERATORS + 1)])
    write_manifest(folder)

    with pytest.raises(CosthubError, match="no model has that many"):
        read_site_model(folder, "lab/m")


def test_a_name_that_cannot_be_pulled_is_refused(folder: Path) -> None:
    write_manifest(folder)

    with pytest.raises(CosthubError, match="is not an address"):
        read_site_model(folder, "lab/$(reboot)")


def test_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "private.png").write_bytes(PNG)
    (folder / "masks.png").symlink_to(tmp_path / "private.png")
    write_manifest(folder)

    with pytest.raises(CosthubError, match="link out of its folder"):
        read_site_model(folder, "lab/m")


def test_a_card_without_a_block_is_a_card_and_a_link_is_none(tmp_path: Path) -> None:
    assert read_body(tmp_path) is None
    (tmp_path / "README.md").write_text("# T\n")
    assert read_body(tmp_path) == "# T\n"

    (tmp_path / "README.md").rename(tmp_path / "other.md")
    (tmp_path / "README.md").symlink_to("other.md")
    with pytest.raises(DataError, match="is a link"):
        read_body(tmp_path)


def test_models_stand_by_device_the_best_first_and_devices_in_order(hub: Path) -> None:
    found = site_contents([HubRoot(hub, "here")])

    assert [(m.device_id, m.arch) for m in found.site.models] == [
        ("acme-one", "gbt"),
        ("acme-one", "mlp"),
        ("blit-gpu", "mlp"),
    ]
    assert [d["device_id"] for d in found.site.devices] == ["acme-one", "acme-two", "blit-gpu"]
    assert (found.site.datasets, found.pictures, found.left_out) == ((), {}, ())


@pytest.mark.slow
def test_the_leaderboard_is_that_of_the_first_hub_with_one(hub: Path, tmp_path: Path) -> None:
    roots = [HubRoot(hub, "here"), HubRoot(EMBEDDED, "embedded")]
    assert site_contents(roots[:1]).site.leaderboard is None

    found = site_contents(roots)
    assert found.site.leaderboard is not None
    assert found.files["benchmark.json"] == (EMBEDDED / "benchmark.json").read_bytes()

    (hub / "benchmark.json").write_text('{"version": 1, "tracks": [], "origin": {}}')
    assert site_contents(roots).site.leaderboard == Leaderboard(tracks=(), origin={})

    (hub / "benchmark.json").write_text("[")
    damaged = site_contents(roots[:1])
    assert damaged.site.leaderboard is None
    assert any("benchmark.json is not JSON" in sentence for sentence in damaged.left_out)


def test_a_site_with_a_leaderboard_may_be_replaced(tmp_path: Path) -> None:
    page = f"{MARK}<p>"
    for files in ({"benchmark.json": b"{}"}, {}):
        write_site(tmp_path / "site", page, files)
    assert [path.name for path in (tmp_path / "site").iterdir()] == ["index.html"]


def test_a_dataset_is_counted_by_device_and_operator(hub: Path, measured: Callable[..., Path]) -> None:
    measured(hub / "datasets/lab/boards")

    (dataset,) = site_contents([HubRoot(hub, "here")]).site.datasets
    assert (dataset.name, dict(dataset.rows)) == ("lab/boards", {"amd-epyc-zen5-1c": 40})
    assert sum(cell.measured for cell in dataset.coverage) == 40
    assert sum(cell.workloads for cell in dataset.coverage) == dataset.workloads


def test_a_device_that_only_data_know_is_listed(hub: Path, measured: Callable[..., Path]) -> None:
    measured(hub / "datasets/lab/boards")

    devices = {row["device_id"]: row for row in site_contents([HubRoot(hub, "here")]).site.devices}
    assert devices["amd-epyc-zen5-1c"] == {"device_id": "amd-epyc-zen5-1c"}


def test_what_is_damaged_is_named_and_the_rest_is_there(hub: Path, make_model: Any) -> None:
    (hub / "models/costhub/acme-one-mlp/model.safetensors").write_bytes(b"cut")
    (hub / "models/costhub/no-model").mkdir()
    make_model(hub / "models/costhub/unsigned", device_id="acme-one", arch="tokens")
    shard = hub / "datasets/lab/bad/measurements/acme-one/train-00000-of-00001.parquet"
    shard.parent.mkdir(parents=True)
    shard.write_bytes(b"PAR1 no PAR1")

    found = site_contents([HubRoot(hub, "here")])

    assert [m.name for m in found.site.models] == ["costhub/acme-one-gbt", "costhub/blit-gpu-mlp"]
    assert found.site.datasets == ()
    assert len(found.left_out) == 4
    for part in ("acme-one-mlp", "no-model", "unsigned", "lab/bad"):
        assert len([sentence for sentence in found.left_out if part in sentence]) == 1, part


def test_a_damaged_index_is_named_and_its_models_are_there(hub: Path) -> None:
    (hub / "devices.json").write_text("[")

    found = site_contents([HubRoot(hub, "here")])

    assert [d["device_id"] for d in found.site.devices] == ["acme-one", "blit-gpu"]
    (sentence,) = found.left_out
    assert "is not a device index" in sentence


def test_of_two_hubs_the_first_one_counts(hub: Path, make_model: Any, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for name, top_1 in (("acme-one-mlp", 0.1), ("acme-one-new", 0.2)):
        folder = make_model(other / "models/costhub" / name, device_id="acme-one", arch="mlp", top_1=top_1)
        write_manifest(folder)
    (other / "devices.json").write_text(json.dumps({"devices": [{"device_id": "acme-one", "kind": "metal"}]}))

    site = site_contents([HubRoot(other, "b"), HubRoot(hub, "a")]).site

    assert {m.name: m.figures["top_1"] for m in site.models}["costhub/acme-one-mlp"] == 0.1
    assert [m.name for m in site.models].count("costhub/acme-one-new") == 1
    assert site.devices[0]["kind"] == "metal"


def test_a_folder_with_a_strange_name_is_named_in_one_printable_line(hub: Path, make_model: Any) -> None:
    write_manifest(make_model(hub / "models/costhub/a\n\x1b[2Jb", device_id="acme-one", arch="mlp"))

    (sentence,) = site_contents([HubRoot(hub, "here")]).left_out
    assert sentence.isprintable()


PAGE = f"<p>{MARK}</p>"
PICTURES = {"pictures/0a.png": b"a", "pictures/0b.png": b"b"}


def test_a_new_folder_holds_the_page_and_its_pictures(tmp_path: Path) -> None:
    out = tmp_path / "deep/site"

    assert write_site(out, PAGE, PICTURES) == out / "index.html"
    assert {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()} == {"index.html", *PICTURES}
    assert out.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in out.parent.iterdir()] == ["site"]


def test_an_earlier_site_is_replaced_whole(tmp_path: Path) -> None:
    write_site(tmp_path / "site", PAGE, PICTURES)
    write_site(tmp_path / "site", PAGE + "new", {})

    assert [path.name for path in (tmp_path / "site").iterdir()] == ["index.html"]
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    assert write_site(tmp_path, PAGE, {}).is_file()


def put(name: str) -> Callable[[Path], None]:
    def make(out: Path) -> None:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("mine")

    return make


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (".git/config", ".git"),
        ("notes.txt", "notes.txt"),
        ("pictures/mine.txt", "pictures/mine.txt"),
        ("pictures/x.png/y.png", "pictures/x.png"),
        ("index.html", "index.html"),
    ],
)
def test_a_folder_with_anything_else_is_left_alone(tmp_path: Path, name: str, said: str) -> None:
    out = tmp_path / "site"
    write_site(out, PAGE, PICTURES)
    put(name)(out)
    before = sorted(path.name for path in out.rglob("*"))

    with pytest.raises(ArgumentError, match=rf"holds {said}, which costhub did not build"):
        write_site(out, PAGE, {})
    assert sorted(path.name for path in out.rglob("*")) == before
    assert (out / name).read_text() == "mine"


def test_a_page_that_is_larger_than_any_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "site"
    write_site(out, PAGE, PICTURES)
    write_site(out, PAGE, PICTURES)
    monkeypatch.setattr("costhub.hub.site.MAX_PAGE_BYTES", len(PAGE) - 1)

    with pytest.raises(ArgumentError, match=r"holds index.html, which costhub did not build"):
        write_site(out, PAGE, PICTURES)
    assert (out / "index.html").read_text() == PAGE


def test_a_folder_full_of_files_is_refused_by_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put("a.txt")(tmp_path / "site")
    put("z/deep/down.txt")(tmp_path / "site")
    monkeypatch.setattr(Path, "rglob", lambda *_: pytest.fail("all of it was listed"))

    with pytest.raises(ArgumentError, match=r"holds a\.txt"):
        write_site(tmp_path / "site", PAGE, {})
    put("benchmark.json")(tmp_path / "other")
    with pytest.raises(ArgumentError, match=r"holds benchmark\.json"):
        write_site(tmp_path / "other", PAGE, {})


def test_pictures_alone_are_no_site(tmp_path: Path) -> None:
    put("pictures/a.png")(tmp_path / "site")

    with pytest.raises(ArgumentError, match="holds pictures"):
        write_site(tmp_path / "site", PAGE, {})


def test_links_and_files_are_no_site(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ArgumentError, match="is a file"):
        write_site(tmp_path / "file", PAGE, {})

    write_site(tmp_path / "site", PAGE, {})
    (tmp_path / "site/index.html").rename(tmp_path / "elsewhere.html")
    (tmp_path / "site/index.html").symlink_to(tmp_path / "elsewhere.html")
    with pytest.raises(ArgumentError, match=r"holds index\.html"):
        write_site(tmp_path / "site", PAGE, {})


def test_an_interrupted_swap_leaves_the_old_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "site"
    write_site(out, PAGE + "old", PICTURES)

    def stop(*_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(site_folder, "swap_in", stop)
    with pytest.raises(KeyboardInterrupt):
        write_site(out, PAGE + "new", {})

    assert (out / "index.html").read_text() == PAGE + "old"
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
