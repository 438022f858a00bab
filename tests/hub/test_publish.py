from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costhub.cards.dataset_card import parse
from costhub.cards.markdown import split
from costhub.cards.model_card import is_as_rendered, render
from costhub.cards.model_card import parse as model_card_of
from costhub.dataset.folder import DataFolder
from costhub.dataset.splits.split import Split, put_split
from costhub.errors import ArgumentError, CosthubError, HubError, ModelError, RefusedError
from costhub.hub.catalogue.find import find_model
from costhub.hub.data import load_measurements
from costhub.hub.publish import PublishPlan, publish
from costhub.hub.remote import remote_repo as module_remote_repo
from costhub.hub.remote.address import AddressError
from costhub.hub.remote.manifest import verify, write_manifest
from costhub.hub.review.merge import merge_into

SHARD = "measurements/amd-epyc-zen5-1c/train-00000-of-00001.parquet"
TO = "hf-hub:acme/data"
REPO = "datasets/acme/data"


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does not load the models, which takes seconds; test_model_gate does."""
    monkeypatch.setattr("costhub.hub.model_check.model_gate.load_in_child", lambda folder: None)


def test_a_model_is_published_tagged_and_found_again(sound_model: Any, hugging_face: Any) -> None:
    plans: list[PublishPlan] = []

    done = publish(sound_model("gbt"), "hf-hub:acme/one", tag="v1", agree=lambda plan: bool(plans.append(plan)) or True)

    assert done is not None
    assert set(plans[0].files) == {
        "README.md",
        "config.json",
        "evaluation.json",
        "manifest.json",
        "evaluation.png",
        "model.ubj",
    }
    assert (plans[0].is_new, plans[0].removed, plans[0].kind) == (True, [], "model")
    assert str(done) == repr(done) == f"Published: {done.url} as v1"
    assert hugging_face.refs["acme/one"] == {"main": done.commit, "v1": done.commit}
    found = find_model("hf-hub:acme/one@v1")
    assert (found.entry.arch, found.revision) == ("gbt", done.commit)
    verify(found.entry.folder)
    block = split(hugging_face.files("acme/one")["README.md"].decode())[0]
    assert {"costhub", "device:amd-epyc-zen5-2c", "arch:gbt", "tvm:0.27.0.post1"} <= set(block["tags"])
    assert block["model-index"][0]["results"][0]["metrics"][0]["type"] == "top_1"
    # The first commit makes the repository, the second is the model: all of it at once.
    assert len([r for r in hugging_face.requests if "/commit/" in r]) == 1


def test_the_commands_on_a_published_card_name_the_model_where_it_is(
    sound_model: Any, hub: Path, hugging_face: Any
) -> None:
    folder = sound_model("gbt")
    before = (folder / "README.md").read_text()
    publish(folder, "hf-hub:acme/one", agree=True)
    publish(folder, str(hub), name="lab/one", agree=True)

    sent = hugging_face.files("acme/one")["README.md"].decode()
    assert "costhub tune resnet18.c7 --model hf-hub:acme/one --out" in sent
    assert 'costhub.load_model("hf-hub:acme/one")' in sent
    assert "--model lab/one --out" in (hub / "models/lab/one/README.md").read_text()
    assert (folder / "README.md").read_text() == before
    assert is_as_rendered(sent)


def test_a_card_that_somebody_edited_is_not_mended_on_its_way(sound_model: Any, hub: Path) -> None:
    folder = sound_model("gbt")
    card = (folder / "README.md").read_text()
    (folder / "README.md").write_text(card.replace("| conv | 11 |", "| conv | 12 |"))

    with pytest.raises(ModelError, match="does not follow from its own data"):
        publish(folder, str(hub), name="lab/one", agree=True)


def test_a_card_of_an_older_version_goes_as_it_is(sound_model: Any, hub: Path) -> None:
    folder = sound_model("gbt")
    rows = json.loads((folder / "evaluation.json").read_text())["workloads"]
    card = model_card_of((folder / "README.md").read_text())
    old = render(replace(card, version=3, workloads=rows, address="", held_out={}, operators=[], devices=[]))
    (folder / "README.md").write_text(old)

    assert publish(folder, str(hub), name="lab/one", agree=True) is not None
    assert (hub / "models/lab/one/README.md").read_text() == old


def test_publishing_the_same_again_sends_nothing(sound_model: Any, hugging_face: Any) -> None:
    folder = sound_model("gbt")
    first = publish(folder, "hf-hub:acme/one", agree=True)
    hugging_face.requests.clear()

    again = publish(folder, "hf-hub:acme/one", tag="v1", agree=True)

    assert first is not None
    assert again is not None
    assert (again.commit, again.plan.files, again.plan.unchanged) == (first.commit, {}, 6)
    assert [r for r in hugging_face.requests if r.startswith("PUT") or "/commit/" in r] == []


def test_what_the_new_version_lacks_goes_and_what_people_added_stays(
    sound_model: Any, hugging_face: Any, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "model.safetensors").write_bytes(b"of an mlp")
    write_manifest(old)
    files = {path.name: path.read_bytes() for path in old.iterdir()}
    people = {".gitattributes": b"x", "LICENSE": b"text", "notes.md": b"of people", "plot.png": b"theirs"}
    hugging_face.commit("acme/one", {**people, **files})

    done = publish(sound_model("gbt"), "hf-hub:acme/one", agree=True)

    assert done is not None
    assert done.plan.removed == ["model.safetensors"]
    assert {*people, "model.ubj"} <= set(hugging_face.files("acme/one"))
    assert "model.safetensors" not in hugging_face.files("acme/one")


def test_saying_no_changes_nothing(measured: Any, tmp_path: Path, hugging_face: Any) -> None:
    assert publish(measured(tmp_path / "data"), TO, agree=lambda plan: False) is None
    assert hugging_face.commits == {}


def test_a_dataset_is_published_and_read_from_there(measured: Any, tmp_path: Path, hugging_face: Any) -> None:
    folder = measured(tmp_path / "data")

    publish(folder, TO, agree=True)

    found = load_measurements(TO, columns=["record_id"])
    assert found["record_id"].to_pylist() == DataFolder.open(folder).measurements()["record_id"].to_pylist()
    assert split(hugging_face.files(REPO)["README.md"].decode())[0]["license"] == "cc-by-4.0"


@pytest.mark.slow
def test_a_dataset_tells_its_versions_and_comes_with_a_sample(measured: Any, tmp_path: Path, hugging_face: Any) -> None:
    publish(measured(tmp_path / "one", 0, 20), TO, tag="v1", agree=True)
    again = publish(measured(tmp_path / "again", 0, 20), TO, agree=True)
    publish(measured(tmp_path / "two", 0, 30), TO, tag="v2", replace=True, agree=True)

    files = hugging_face.files(REPO)
    card = parse(files["README.md"].decode())
    assert again is not None
    assert again.plan.files == {}
    assert [(c["version"], c["added"], c["rows"]) for c in card.changes] == [("v1", 20, 20), ("v2", 10, 30)]
    assert (card.address, card.sample_rows) == (TO, 30)
    assert {"latencies.png", "sample/train-00000-of-00001.parquet"} <= set(files)
    assert load_measurements(TO, columns=["record_id"]).num_rows == 30


def test_measurements_of_others_are_not_dropped_by_accident(measured: Any, tmp_path: Path, hugging_face: Any) -> None:
    publish(measured(tmp_path / "one", 0, 20), TO, agree=True)
    other = measured(tmp_path / "other", 20, 20)

    with pytest.raises(HubError, match="Send yours with `costhub contribute`"):
        publish(other, TO, agree=True)

    done = publish(other, TO, replace=True, agree=True)
    assert done is not None
    assert load_measurements(TO, columns=["record_id"]).num_rows == 20


def test_a_card_that_somebody_changed_meanwhile_is_not_replaced(
    measured: Any, tmp_path: Path, hugging_face: Any
) -> None:
    publish(measured(tmp_path / "one", 0, 20), TO, agree=True)
    theirs = hugging_face.files(REPO)["README.md"] + b"Their sentence.\n"

    def agree(plan: PublishPlan) -> bool:
        hugging_face.change(REPO, {"README.md": theirs}, message="quicker")
        return True

    with pytest.raises(HubError, match="changed by someone else in the meantime"):
        publish(measured(tmp_path / "two", 0, 30), TO, agree=agree)
    assert hugging_face.files(REPO)["README.md"] == theirs
    assert load_measurements(TO, columns=["record_id"]).num_rows == 20


def test_a_folder_that_has_grown_without_the_splits_of_the_hub_keeps_them(
    measured: Any, unchecked: None, hub: Path, tmp_path: Path
) -> None:
    place: dict[str, Any] = {"to": str(hub), "name": "lab/data", "agree": True}
    first = measured(tmp_path / "first", 0, 20)
    names = DataFolder.open(first).workloads(["workload_id"])["workload_id"].to_pylist()
    put_split(first, Split("mine", (), tuple(names), 0))
    kept = hub / "datasets/lab/data/splits/mine.json"
    publish(first, **place)
    assert kept.is_file()

    folder = measured(tmp_path / "grown", 0, 30)
    grown = publish(folder, **place)

    assert grown is not None
    assert not any(path.startswith("splits/") for path in grown.plan.removed)
    assert kept.is_file()
    replaced = publish(folder, **place, replace=True)
    assert replaced is not None
    assert replaced.plan.removed == ["splits/mine.json"]
    assert not kept.exists()


@pytest.fixture
def pieces(measured: Any, tmp_path: Path) -> Any:
    """A data folder without measurements, and its rows in 20 tables of two."""
    folder = DataFolder.open(measured(tmp_path / "grown"))
    rows = folder.measurements()
    (folder.path / SHARD).unlink()
    return folder, [rows.slice(start, 2) for start in range(0, 40, 2)]


def grow(folder: DataFolder, tables: Any) -> None:
    """Adds a shard for each table, as one collection after the other does."""
    for table in tables:
        with folder.writer("amd-epyc-zen5-1c") as writer:
            writer.extend(table)


@pytest.mark.slow
@pytest.mark.parametrize("to", [TO, "a folder"])
def test_a_folder_whose_shards_were_joined_as_it_grew_is_published_again(
    pieces: Any, unchecked: None, hub: Path, hugging_face: Any, to: str
) -> None:
    folder, tables = pieces
    place: dict[str, Any] = {"to": TO} if to == TO else {"to": str(hub), "name": "lab/data"}
    grow(folder, tables[:12])
    publish(folder.path, **place, agree=True)
    before = {path.read_bytes() for path in folder.path.glob("measurements/*/*")}
    grow(folder, tables[12:])
    assert len(before) == 12 + 1  # and the lock
    assert not before & {path.read_bytes() for path in folder.path.glob("measurements/*/*.parquet")}

    done = publish(folder.path, **place, agree=True)

    assert done is not None
    published = load_measurements(TO if to == TO else hub / "datasets/lab/data", columns=["record_id"])
    assert sorted(published["record_id"].to_pylist()) == sorted(folder.measurements()["record_id"].to_pylist())
    assert published.num_rows == 40


@pytest.mark.slow
def test_rows_that_were_in_a_journal_may_be_in_a_larger_shard_later(
    pieces: Any, unchecked: None, hub: Path, hugging_face: Any
) -> None:
    folder, tables = pieces
    with folder.writer("amd-epyc-zen5-1c") as writer:
        for table in tables[:2]:
            for row in table.to_pylist():
                writer.append(row)
            publish(folder.path, TO, agree=True)  # while a collection runs
    publish(folder.path, TO, agree=True)

    assert load_measurements(TO, columns=["record_id"]).num_rows == 4


def test_merged_rows_that_the_grown_folder_lacks_are_counted_and_kept(
    pieces: Any, unchecked: None, hub: Path, measured: Any, tmp_path: Path
) -> None:
    folder, tables = pieces
    grow(folder, tables[:12])
    publish(folder.path, str(hub), name="lab/data", agree=True)
    merge_into(measured(tmp_path / "others", 36, 10), hub / "datasets/lab/data")
    grow(folder, tables[12:])  # up to row 40, so that 4 of the others' rows are in both

    lost = r"lab/data holds 1 shard of measurements with 6 rows that this folder lacks \(measurements/amd-epyc-zen5-1c/"
    with pytest.raises(HubError, match=lost):
        publish(folder.path, str(hub), name="lab/data", agree=True)
    assert DataFolder.open(hub / "datasets/lab/data").measurements().num_rows == 24 + 10

    publish(folder.path, str(hub), name="lab/data", replace=True, agree=True)
    assert DataFolder.open(hub / "datasets/lab/data").measurements().num_rows == 40


def test_rows_that_the_hub_holds_in_a_journal_are_not_dropped(pieces: Any, unchecked: None, hub: Path) -> None:
    folder, tables = pieces
    grow(folder, tables[:1])
    publish(folder.path, str(hub), name="lab/data", agree=True)
    published = DataFolder.open(hub / "datasets/lab/data")
    writer = published.writer("amd-epyc-zen5-1c")
    writer.append(tables[1].to_pylist()[0])
    content = (published.path / "measurements/amd-epyc-zen5-1c/journal.jsonl").read_bytes()
    writer.close()
    shutil.rmtree(published.path / "measurements")
    shutil.copytree(folder.path / "measurements", published.path / "measurements")
    (published.path / "measurements/amd-epyc-zen5-1c/journal.jsonl").write_bytes(content)  # as after a crash

    with pytest.raises(HubError, match=r"with 1 row that this folder lacks \(.*journal\.jsonl\)"):
        publish(folder.path, str(hub), name="lab/data", agree=True)

    grow(folder, tables[1:2])
    publish(folder.path, str(hub), name="lab/data", agree=True)
    assert published.measurements().num_rows == 4


def test_a_shard_of_the_hub_that_cannot_be_read_is_not_dropped(
    pieces: Any, unchecked: None, hub: Path, hugging_face: Any
) -> None:
    folder, tables = pieces
    grow(folder, tables[:1])
    publish(folder.path, TO, agree=True)
    hugging_face.change(REPO, {SHARD: b"PAR1"}, message="damage")

    with pytest.raises(HubError, match=f"acme/data holds {SHARD}, which cannot be read.*--replace"):
        publish(folder.path, TO, agree=True)


def test_what_check_refuses_does_not_go(measured: Any, tmp_path: Path, hugging_face: Any) -> None:
    folder = measured(tmp_path / "data")
    shard = folder / SHARD
    shard.write_bytes(shard.read_bytes()[:3000] + b"?" + shard.read_bytes()[3001:])

    with pytest.raises(RefusedError, match=r"CH002 in measurements.*Nothing was sent"):
        publish(folder, TO, agree=True)
    assert hugging_face.requests == []


def test_noisy_rows_go_with_a_warning_that_the_card_keeps(noisy: Any, tmp_path: Path, hugging_face: Any) -> None:
    plans: list[PublishPlan] = []
    folder = noisy(tmp_path / "data")

    publish(folder, TO, agree=lambda plan: bool(plans.append(plan)) or True)

    (found,) = (found for found in plans[0].warnings if found.rule == "CH060")
    card = hugging_face.files(REPO)["README.md"].decode()
    assert parse(card).warned_rows["CH060"] == found.rows > 20
    limits = card.split("## Limits")[1].split("## ")[0]
    assert f"- {found.rows} rows do not keep the rule CH060 of `costhub check` (most repeats of a session" in limits


def test_figures_of_a_disturbed_probe_go_with_a_warning(measured: Any, unchecked: None, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    folder = DataFolder.open(measured(tmp_path / "data", 0, 5))
    (row,) = folder.devices().to_pylist()
    plans: list[PublishPlan] = []

    def agree(plan: PublishPlan) -> bool:
        plans.append(plan)
        return True

    for peak in (row["peak_gflops"], row["peak_gflops"] / 2):
        folder.put_device({**row, "peak_gflops": peak})
        publish(folder.path, str(tmp_path / "hub"), name="lab/data", agree=agree)

    sound, disturbed = plans
    assert sound.low_figures == ()
    (sentence,) = disturbed.low_figures
    assert sentence.startswith("amd-epyc-zen5-1c: float32 is 2.0 times lower than the device index says (")
    (sent,) = DataFolder.open(tmp_path / "hub/datasets/lab/data").devices().to_pylist()
    assert sent["peak_gflops"] == row["peak_gflops"] / 2


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "[x](java&#115;cript:alert(1))",
        "![a [b]][c]\n\n[c]: https://e.org/x.png",
        "\x1b[2J",
    ],
)
def test_a_hostile_card_does_not_go(
    text: str, measured: Any, unchecked: None, tmp_path: Path, hugging_face: Any
) -> None:
    folder = measured(tmp_path / "data")
    with (folder / "README.md").open("a") as file:
        file.write(f"\n{text}\n")

    with pytest.raises(CosthubError, match=r"README\.md holds"):
        publish(folder, TO, agree=True)
    assert hugging_face.commits == {}


def test_hidden_letters_in_the_block_of_a_card_do_not_go(
    measured: Any, unchecked: None, tmp_path: Path, hugging_face: Any
) -> None:
    folder = measured(tmp_path / "data")
    card = (folder / "README.md").read_text()
    (folder / "README.md").write_text(card.replace("---\n", '---\npretty_name: "a\\u202eb"\n', 1))

    with pytest.raises(CosthubError, match=r"the control character U\+202E"):
        publish(folder, TO, agree=True)
    assert hugging_face.commits == {}


def test_a_home_folder_in_a_text_does_not_go(measured: Any, tmp_path: Path, hugging_face: Any) -> None:
    folder = measured(tmp_path / "data")
    (folder / "splits").mkdir()
    (folder / "splits/mine.json").write_text('{"from": "/home/ada/splits"}')

    with pytest.raises(RefusedError, match=r"splits/mine\.json holds a home folder"):
        publish(folder, TO, agree=True)
    assert hugging_face.requests == []


def test_a_model_that_the_gate_refuses_does_not_go(sound_model: Any, hugging_face: Any) -> None:
    folder = sound_model("gbt")
    (folder / "scaler.pkl").write_bytes(b"\x80\x04.")

    with pytest.raises(ModelError, match=r"scaler\.pkl"):
        publish(folder, "hf-hub:acme/one", agree=True)
    assert hugging_face.requests == []


def test_a_commit_of_somebody_else_is_no_obstacle(sound_model: Any, hugging_face: Any) -> None:
    hugging_face.commit("acme/one", {".gitattributes": b"x"})
    hugging_face.before_commit = lambda: hugging_face.change("acme/one", {"LICENSE": b"x"}, message="quicker")

    done = publish(sound_model("gbt"), "hf-hub:acme/one", agree=True)

    assert done is not None
    assert {"LICENSE", "config.json"} <= set(hugging_face.files("acme/one"))


def test_what_nobody_agreed_to_is_not_removed(sound_model: Any, hugging_face: Any, tmp_path: Path) -> None:
    hugging_face.commit("acme/one", {".gitattributes": b"x"})
    other = tmp_path / "other"
    other.mkdir()
    (other / "weights.ubj").write_bytes(b"{of another model")
    write_manifest(other)
    theirs = {path.name: path.read_bytes() for path in other.iterdir()}
    hugging_face.before_commit = lambda: hugging_face.change("acme/one", theirs, message="quicker")

    with pytest.raises(HubError, match="changed by someone else"):
        publish(sound_model("gbt"), "hf-hub:acme/one", agree=True)
    assert set(hugging_face.files("acme/one")) == {".gitattributes", *theirs}


def test_a_head_that_never_stands_still_ends_in_a_sentence(
    sound_model: Any, hugging_face: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costhub.hub.remote.remote_repo.time.sleep", lambda seconds: None)
    hugging_face.commit("acme/one", {".gitattributes": b"x"})
    hugging_face.faults.append(_fault("POST .*/commit/", status=409, times=99))

    with pytest.raises(HubError, match="changed by someone else"):
        publish(sound_model("gbt"), "hf-hub:acme/one", agree=True)
    assert len([r for r in hugging_face.requests if "/commit/" in r]) == module_remote_repo.ATTEMPTS


def test_a_commit_whose_answer_was_lost_is_found_by_the_next_run(sound_model: Any, hugging_face: Any) -> None:
    folder = sound_model("gbt")
    hugging_face.faults.append(_fault("POST .*/commit/", after=True))

    with pytest.raises(HubError, match="run the command again"):
        publish(folder, "hf-hub:acme/one", tag="v1", agree=True)
    done = publish(folder, "hf-hub:acme/one", tag="v1", agree=True)

    assert done is not None
    assert done.plan.files == {}
    assert hugging_face.refs["acme/one"]["v1"] == done.commit
    assert len([r for r in hugging_face.requests if "/commit/" in r]) == 1


def test_a_folder_is_a_hub_as_well(sound_model: Any, measured: Any, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()

    publish(sound_model("gbt"), str(tmp_path / "hub"), name="lab/one", agree=True)
    publish(measured(tmp_path / "data"), f"local-dir:{tmp_path / 'hub'}", name="lab/data", agree=True)

    verify(tmp_path / "hub/models/lab/one")
    assert DataFolder.open(tmp_path / "hub/datasets/lab/data").measurements().num_rows == 40


@pytest.mark.parametrize(
    ("to", "options", "sentence"),
    [
        ("nvidia-h200", {}, "is not a place to write to"),
        ("hf-hub:acme", {}, "after hf-hub: comes ORG/NAME"),
        ("hf-hub:a/b@v1", {}, "leave out --as and @REVISION"),
        *(
            ("hf-hub:a/b", {"tag": tag}, "cannot be a tag")
            for tag in ("../x", "main", "a..b", "v1.", "v1.lock", "a" * 40)
        ),
        ("HUB", {}, "give --as ORG/NAME"),
        ("HUB", {"name": "../../etc"}, "give --as ORG/NAME"),
        ("HUB", {"name": "mine"}, "'mine' is not of the form ORG/NAME"),
        ("HUB", {"name": "a/b", "tag": "v1"}, "nor tags"),
        ("/no/such/folder", {"name": "a/b"}, "is not a folder"),
    ],
)
def test_a_place_that_is_none_is_refused(
    to: str, options: dict[str, Any], sentence: str, sound_model: Any, tmp_path: Path
) -> None:
    (tmp_path / "hub").mkdir()

    with pytest.raises((AddressError, ArgumentError, HubError), match=sentence):
        publish(sound_model("gbt"), to.replace("HUB", str(tmp_path / "hub")), agree=True, **options)
    assert list((tmp_path / "hub").iterdir()) == []


def test_a_tag_that_is_taken_is_told_before_anything_is_sent(sound_model: Any, hugging_face: Any) -> None:
    folder = sound_model("gbt")
    first = publish(folder, "hf-hub:acme/one", tag="v1", agree=True)
    assert first is not None
    (folder / "notes.md").write_text("more")

    with pytest.raises(HubError, match="already has a tag v1"):
        publish(folder, "hf-hub:acme/one", tag="v1", agree=lambda plan: pytest.fail("it asked"))
    assert hugging_face.refs["acme/one"] == {"main": first.commit, "v1": first.commit}


def test_a_name_of_this_machine_in_the_rows_does_not_go(
    measured: Any, tmp_path: Path, hugging_face: Any, unchecked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = measured(tmp_path / "data", 0, 5)
    opened = DataFolder.open(folder)
    opened.put_device({**opened.devices().to_pylist()[0], "model_name": "CPU of adalovelace"})
    monkeypatch.setattr("costhub.hub.staging.own_names", lambda: ("adalovelace",))

    with pytest.raises(RefusedError, match="model_name holds 'adalovelace'"):
        publish(folder, TO, agree=True)
    assert hugging_face.requests == []


@pytest.fixture
def own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user and the machine have these names."""
    monkeypatch.setattr("costhub.hub.staging.own_names", lambda: ("ada-laptop", "adal", "lovelace"))


def signed(folder: Path, contributor: str, **others: Any) -> Path:
    """Writes a contributor into all rows of a data folder."""
    rows = DataFolder.open(folder).measurements().to_pylist()
    (folder / SHARD).unlink()
    with DataFolder.open(folder).writer(rows[0]["device_id"]) as writer:
        for row in rows:
            writer.append({**row, "contributor": contributor, **others})
    return folder


def test_a_card_with_the_users_name_is_renewed_where_the_name_is_public(
    measured: Any, hub: Path, unchecked: None, own_names: None, tmp_path: Path
) -> None:
    folder = signed(measured(tmp_path / "data", 0, 5), "Ada Lovelace")
    publish(folder, str(hub), name="adal/data", agree=True)
    published = hub / "datasets/adal/data"
    card = (published / "README.md").read_text()
    assert "Measured by Ada Lovelace." in card
    assert 'load_measurements("adal/data"' in card

    assert publish(published, str(hub), name="adal/data", agree=True) is not None

    (published / "README.md").write_text(f"{card}\nThey ran on ada-laptop.\n")
    with pytest.raises(RefusedError, match=r"README\.md holds 'ada-laptop'"):
        publish(published, str(hub), name="adal/data", agree=True)


def test_the_name_of_another_than_a_contributor_is_still_refused(
    measured: Any, hub: Path, unchecked: None, own_names: None, tmp_path: Path
) -> None:
    folder = signed(measured(tmp_path / "data", 0, 5), "Bob")
    with (folder / "README.md").open("a") as file:
        file.write("\nMeasured by Ada Lovelace.\n")

    with pytest.raises(RefusedError, match=r"README\.md holds 'lovelace'"):
        publish(folder, str(hub), name="lab/data", agree=True)
    assert list(hub.iterdir()) == []


def test_the_card_in_the_hub_goes_on_saying_who_only_imported_rows(
    measured: Any, hub: Path, unchecked: None, tmp_path: Path
) -> None:
    folder = signed(measured(tmp_path / "data", 0, 5), "Bob", proposed_by="imported")
    publish(folder, str(hub), name="lab/data", agree=True)
    card = hub / "datasets/lab/data/README.md"
    assert "Measured by Bob." in card.read_text()

    card.write_text(card.read_text().replace("    places: []\n", "    places: []\n    only_imported: true\n"))
    publish(folder, str(hub), name="lab/data", agree=True)

    assert parse(card.read_text()).origins[0]["only_imported"] is True
    assert "Who measured them is not known" in card.read_text()
    assert "Measured by" not in card.read_text()


def test_a_model_names_those_who_measured(sound_model: Any, hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = sound_model("gbt")
    assert json.loads((folder / "config.json").read_text())["data_credit"] == "costhub (CC-BY-4.0)"
    monkeypatch.setattr("costhub.hub.staging.own_names", lambda: ("costhub",))

    assert publish(folder, str(hub), name="lab/one", agree=True) is not None

    monkeypatch.setattr("costhub.hub.staging.own_names", lambda: ("xgboost",))
    with pytest.raises(RefusedError, match="holds 'xgboost'"):
        publish(folder, str(hub), name="lab/one", agree=True)


def test_figures_beside_a_model_without_a_card_become_its_card(sound_model: Any, hugging_face: Any) -> None:
    folder = sound_model("gbt")
    (folder / "README.md").unlink()

    publish(folder, "hf-hub:acme/one", agree=True)

    shutil.rmtree(folder)
    told = json.loads(hugging_face.files("acme/one")["evaluation.json"])["totals"]["top_1"]
    block = split(hugging_face.files("acme/one")["README.md"].decode())[0]
    assert block["costhub"]["totals"]["top_1"] == told


def _fault(request: str, **settings: Any) -> Any:
    import sys

    return sys.modules["loopback_hub"].Fault(request, **settings)


NOT_CONSENT = [False, None, "yes", 1, "True", [True]]


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    (tmp_path / "hub").mkdir()
    return tmp_path / "hub"


def test_without_consent_nothing_is_sent(sound_model: Any, hub: Path) -> None:
    with pytest.raises(TypeError, match="agree"):
        publish(sound_model("gbt"), str(hub), name="lab/one")  # type: ignore[call-arg]
    assert not list(hub.iterdir())


@pytest.mark.parametrize("agree", NOT_CONSENT, ids=repr)
def test_what_is_not_clearly_consent_is_refused(sound_model: Any, hub: Path, agree: Any) -> None:
    with pytest.raises(RefusedError, match="agree=True"):
        publish(sound_model("gbt"), str(hub), name="lab/one", agree=agree)
    assert not list(hub.iterdir())


@pytest.mark.parametrize("answer", NOT_CONSENT, ids=repr)
def test_only_the_answer_true_sends(sound_model: Any, hub: Path, answer: Any) -> None:
    assert publish(sound_model("gbt"), str(hub), name="lab/one", agree=lambda plan: answer) is None
    assert not list(hub.iterdir())


def test_replacing_rows_is_refused_for_a_model(sound_model: Any, hub: Path) -> None:
    with pytest.raises(ArgumentError, match=r"is a model, and --replace \(replace=True\) removes measurements: leave"):
        publish(sound_model("gbt"), str(hub), name="lab/mine", replace=True, agree=True)
    assert list(hub.iterdir()) == []


def test_a_dataset_is_no_hub(measured: Any, tmp_path: Path) -> None:
    folder, hub = measured(tmp_path / "mine"), tmp_path / "hub"
    hub.mkdir()
    publish(folder, str(hub), name="lab/data", agree=True)

    with pytest.raises(AddressError, match=f"is a dataset in a hub. Write --to {hub} --as lab/data"):
        publish(folder, str(hub / "datasets/lab/data"), agree=True)


def test_a_first_publication_that_fails_leaves_no_empty_model(
    sound_model: Any, hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("costhub.hub.remote.folder_repo._copy", full)

    with pytest.raises((OSError, CosthubError)):
        publish(sound_model("gbt"), str(hub), name="lab/one", agree=True)
    assert not (hub / "models/lab/one").exists()
