from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.folder import DataFolder
from costhub.errors import ArgumentError, CosthubError, MeasureError
from costhub.hub.catalogue.hubs import HUB_VARIABLE
from costhub.hub.contribute import contribute
from costhub.hub.publish import publish
from costhub.hub.review import review as module
from costhub.hub.review.review import review

REPO = "datasets/acme/data"


def test_a_pull_request_is_judged_merged_and_then_known(offered: Any, hugging_face: Any) -> None:
    address = offered()

    seen = review(address, deep=False)
    merged = review(address, deep=False, merge=True)
    again = review(address, deep=False, merge=True)

    assert seen.verdict.is_accepted
    assert seen.verdict.comparisons[0].repeated > 100
    assert (seen.merged, merged.merged) == (None, hugging_face.refs[REPO]["main"])
    assert (seen.repository, merged.repository) == (None, "acme/data")
    assert (again.verdict.is_accepted, again.merged) == (False, None)
    assert "already" in again.verdict.reasons[0].what
    first, *_, last = str(seen).splitlines()
    assert first.startswith("amd-epyc-zen5-1c: 112 rows beside 112 in the hub; 112 programs in both, latency ratio ")
    assert last == f"{address}: accepted."
    assert str(merged).splitlines()[-2] == f"Merged: {merged.merged}"
    assert merged.renewing[1] == f"costhub publish renewed-{str(merged.merged)[:7]}/ --to hf-hub:acme/data"
    assert str(again).endswith(f"{address}: refused.\nClosed: all of its rows were in the tables already.")
    assert again.renewing == []


def test_what_is_refused_is_not_merged(offered: Any, hugging_face: Any) -> None:
    address = offered("same", session=0)
    before = dict(hugging_face.files(REPO))

    done = review(address, deep=False, merge=True)

    assert (done.verdict.is_accepted, done.merged) == (False, None)
    assert hugging_face.files(REPO) == before


@pytest.mark.slow
def test_a_contribution_in_a_shared_folder_is_merged_and_leaves_the_inbox(measured: Any, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    publish(measured(tmp_path / "published"), str(tmp_path / "hub"), name="lab/data", agree=True)
    sent = contribute(measured(tmp_path / "mine", 100), str(tmp_path / "hub"), name="lab/data", deep=False, agree=True)
    assert sent is not None
    dataset = tmp_path / "hub/datasets/lab/data"
    inbox = dataset / "contributions" / sent.offer.contribution_id

    done = review(str(inbox), against=str(dataset), merge=True, deep=False)

    assert done.merged == str(dataset)
    assert done.removed
    assert f"Merged: {dataset}\nRemoved: {inbox}, which awaited the review\nThe card is unchanged; " in repr(done)
    assert DataFolder.open(dataset).measurements().num_rows == 80
    assert not inbox.parent.exists()


def test_a_merge_is_told_even_if_the_contribution_may_not_be_removed(
    measured: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = measured(tmp_path / "held", 0, 5)
    inbox = measured(held / "contributions/0123456789abcdef", 10, 5)
    remove = shutil.rmtree

    def refuse(path: Any, *given: Any, **options: Any) -> None:
        if Path(path) == inbox:
            raise PermissionError(errno.EACCES, "Permission denied", "train-00000-of-00001.parquet")
        remove(path, *given, **options)

    monkeypatch.setattr(shutil, "rmtree", refuse)
    done = review(str(inbox), merge=True, deep=False)
    again = review(str(inbox), merge=True, deep=False)

    assert (done.merged, done.not_removed) == (str(held), "Permission denied")
    assert (again.merged, again.not_removed) == (None, "Permission denied")
    assert DataFolder.open(held).measurements().num_rows == 10
    monkeypatch.undo()
    assert review(str(inbox), merge=True, deep=False).not_removed is None
    assert not inbox.exists()


def test_what_is_merged_is_what_was_checked(measured: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, new = measured(tmp_path / "held", 0, 5), measured(tmp_path / "new", 10, 5)
    check = module.review_contribution

    def swap(*given: Any, **options: Any) -> Any:
        verdict = check(*given, **options)
        shutil.rmtree(new)
        return verdict

    monkeypatch.setattr(module, "review_contribution", swap)
    assert review(str(new), against=str(held), merge=True, deep=False).merged == str(held)
    assert DataFolder.open(held).measurements().num_rows == 10


def test_a_link_in_a_folder_is_refused(measured: Any, tmp_path: Path) -> None:
    new = measured(tmp_path / "new", 0, 5)
    (new / "measurements/x").symlink_to("/")

    (reason,) = review(str(new), deep=False).verdict.reasons
    assert "is a link" in reason.what


@pytest.mark.slow
def test_a_merge_whose_answer_was_lost_is_finished_by_the_next_run(
    offered: Any, hugging_face: Any, measured: Any, tmp_path: Path
) -> None:
    address = offered()
    review(address, deep=False, merge=True)
    hugging_face.pulls[REPO][0].status = "open"
    before = hugging_face.refs[REPO]["main"]

    review(address, deep=False)
    assert hugging_face.pulls[REPO][0].status == "open"
    done = review(address, deep=False, merge=True)

    assert (done.verdict.is_accepted, done.merged, done.closed) == (False, None, True)
    assert (hugging_face.pulls[REPO][0].status, hugging_face.refs[REPO]["main"]) == ("closed", before)

    held = measured(tmp_path / "held", 0, 5)
    inbox = measured(held / "contributions/0123456789abcdef", 0, 5)
    done = review(str(inbox), against=str(held), merge=True, deep=False)
    assert (done.verdict.is_accepted, done.closed) == (False, True)
    assert not inbox.exists()


@pytest.mark.slow
def test_records_of_all_devices_of_a_hub_are_compared(
    offered: Any, hugging_face: Any, measured: Any, tmp_path: Path
) -> None:
    offered()
    old = DataFolder.open(measured(tmp_path / "old", session=0))
    new = DataFolder.create(tmp_path / "other")
    new.put_device({**old.devices().to_pylist()[0], "device_id": "other-cpu"})
    new.put_workloads(old.workloads().to_pylist())
    with new.writer("other-cpu") as writer:
        for row in old.measurements().to_pylist()[:5]:
            writer.append({**row, "device_id": "other-cpu"})
    sent = contribute(new.path, "hf-hub:acme/data", deep=False, agree=True)
    assert sent is not None

    verdict = review(f"hf-hub:acme/data@refs/pr/{sent.pull_request}", deep=False).verdict

    assert [r.weight for r in verdict.reasons if "5 rows have the record_id" in r.what] == ["refuse"]


def test_a_check_that_does_not_start_is_no_refusal(sound_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path) -> None:
        raise MeasureError("The child process does not start.")

    monkeypatch.setattr("costhub.hub.model_check.model_gate.load_in_child", fail)
    with pytest.raises(MeasureError):
        review(str(sound_model("gbt")))


def test_a_model_is_judged_by_its_gate(sound_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costhub.hub.model_check.model_gate.load_in_child", lambda folder: None)
    folder = sound_model("gbt")
    assert review(str(folder)).verdict.is_accepted

    (folder / "x.pkl").write_bytes(b"\x80\x04.")
    verdict = review(str(folder)).verdict
    assert (verdict.kind, verdict.is_accepted) == ("model", False)
    assert "x.pkl" in verdict.reasons[0].what
    with pytest.raises(ArgumentError, match="Only measurements are merged"):
        review(str(folder), merge=True)


@pytest.mark.parametrize("options", [{"against": "nvidia-h200"}, {"deep": False}])
def test_what_a_model_has_no_use_for_is_refused(sound_model: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="is a model, and --against and --shallow"):
        review(str(sound_model("gbt")), **options)


def test_a_folder_is_merged_into_a_folder_only(measured: Any, tmp_path: Path) -> None:
    folder = str(measured(tmp_path / "data", 0, 5))

    for against in (None, "hf-hub:acme/data"):
        with pytest.raises(ArgumentError, match="name that data folder with --against"):
            review(folder, against=against, merge=True)


@pytest.mark.slow
def test_a_pull_request_is_merged_only_after_a_comparison_with_its_own_dataset(
    offered: Any, measured: Any, hugging_face: Any, tmp_path: Path
) -> None:
    address = offered()
    copy = measured(tmp_path / "copy", session=1)  # which holds all rows of the pull request
    before = dict(hugging_face.files(REPO))

    with pytest.raises(ArgumentError, match="must be compared with that: leave --against out"):
        review(address, against=str(copy), merge=True, deep=False)

    assert hugging_face.files(REPO) == before
    assert hugging_face.pulls[REPO][0].status == "open"
    assert not review(address, against=str(copy), deep=False).verdict.is_accepted
    assert review(address, against="hf-hub:acme/data", merge=True, deep=False).merged is not None


@pytest.mark.slow
def test_a_dataset_to_compare_with_may_be_named(measured: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = measured(tmp_path / "hub/datasets/lab/held", session=0)
    new = measured(tmp_path / "new", session=1)
    monkeypatch.setenv(HUB_VARIABLE, str(tmp_path / "hub"))

    seen = review(str(new), against="lab/held", deep=False)
    merged = review(str(new), against="held", deep=False, merge=True)

    assert seen.verdict.comparisons[0].repeated > 100
    assert merged.merged == str(held)
    with pytest.raises(CosthubError, match="no-such-data"):
        review(str(new), against="no-such-data", deep=False)


def test_a_name_never_merges_into_the_package(measured: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"costhub/amd-epyc-zen5 comes with costhub.*--against /.*/amd-epyc-zen5$"):
        review(str(measured(tmp_path / "new", 0, 5)), against="amd-epyc-zen5", deep=False, merge=True)


HOSTILE_LINES = [
    "<script>alert(1)</script>",
    "[x](java&#115;cript:alert(1))",
    "![x](&#104;ttps://e.org/x.png)",
    "![x]\n\n[x]: https://e.org/x.png",
    "a\u202eb",
]


@pytest.mark.parametrize("line", HOSTILE_LINES)
def test_a_hostile_card_beside_a_contribution_is_refused_and_not_merged(
    line: str, offered: Any, hugging_face: Any
) -> None:
    address = offered()
    card = hugging_face.files(REPO)["README.md"]
    hugging_face.change(REPO, {"README.md": card + f"\n{line}\n".encode()}, ref="refs/pr/1", message="more")
    before = dict(hugging_face.files(REPO))

    done = review(address, deep=False, merge=True)

    assert (done.verdict.is_accepted, done.merged) == (False, None)
    assert "README.md holds" in " ".join(reason.what for reason in done.verdict.reasons if reason.weight == "refuse")
    assert hugging_face.files(REPO) == before


@pytest.mark.parametrize("card", [b"\xff\xfe", b"# no YAML", b"x" * (2 << 20)], ids=["bytes", "no block", "long"])
def test_what_is_no_card_beside_a_contribution_is_refused(card: bytes, offered: Any, hugging_face: Any) -> None:
    address = offered()
    hugging_face.change(REPO, {"README.md": card}, ref="refs/pr/1", message="more")

    assert not review(address, deep=False, merge=True).verdict.is_accepted


@pytest.mark.slow
def test_an_older_card_beside_a_contribution_is_left_out(offered: Any, hugging_face: Any) -> None:
    address = offered()
    newer = hugging_face.files(REPO)["README.md"].replace(b"measurements", b"Measurements")
    hugging_face.change(REPO, {"README.md": newer}, message="a newer card")

    done = review(address, deep=False, merge=True)

    assert done.merged == hugging_face.refs[REPO]["main"]
    assert hugging_face.files(REPO)["README.md"] == newer


@pytest.mark.parametrize("line", HOSTILE_LINES)
def test_a_hostile_card_of_a_model_is_refused_in_a_pull_request(
    line: str, sound_model: Any, hugging_face: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import HfApi

    monkeypatch.setattr("costhub.hub.model_check.model_gate.load_in_child", lambda folder: None)
    folder = sound_model("gbt")
    hugging_face.commit("acme/one", {"README.md": b"# Models of acme"})
    with (folder / "README.md").open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    HfApi(endpoint=hugging_face.url).upload_folder(repo_id="acme/one", folder_path=folder, create_pr=True)

    verdict = review("hf-hub:acme/one@refs/pr/1").verdict

    assert not verdict.is_accepted
    assert "README.md holds" in verdict.reasons[0].what


def test_nothing_is_no_subject(tmp_path: Path) -> None:
    with pytest.raises(CosthubError, match="There is no folder"):
        review(str(tmp_path / "nothing"))
    (tmp_path / "nothing").mkdir()
    with pytest.raises(CosthubError, match="is neither a model folder"):
        review(str(tmp_path / "nothing"))
