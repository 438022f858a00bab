from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.folder import DataFolder
from costhub.errors import CosthubError, RefusedError
from costhub.hub.contribute import contribute
from costhub.hub.publish import publish
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
    assert (again.verdict.is_accepted, again.merged) == (False, None)
    assert "already" in again.verdict.reasons[0].what


def test_what_is_refused_is_not_merged(offered: Any, hugging_face: Any) -> None:
    address = offered("same", session=0)
    before = dict(hugging_face.files(REPO))

    done = review(address, deep=False, merge=True)

    assert (done.verdict.is_accepted, done.merged) == (False, None)
    assert hugging_face.files(REPO) == before


def test_a_contribution_in_a_shared_folder_is_merged_and_leaves_the_inbox(
    measured: Any, tmp_path: Path
) -> None:
    (tmp_path / "hub").mkdir()
    publish(measured(tmp_path / "published"), str(tmp_path / "hub"), name="lab/data")
    sent = contribute(measured(tmp_path / "mine", 100), str(tmp_path / "hub"), name="lab/data", deep=False)
    assert sent is not None
    dataset = tmp_path / "hub/datasets/lab/data"
    inbox = dataset / "contributions" / sent.offer.contribution_id

    done = review(str(inbox), against=str(dataset), merge=True, deep=False)

    assert done.merged == str(dataset)
    assert DataFolder.open(dataset).measurements().num_rows == 80
    assert not inbox.exists()


def test_a_model_is_judged_by_its_gate(sound_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costhub.hub.review.model_gate.load_in_child", lambda folder: None)
    folder = sound_model("gbt")
    assert review(str(folder)).verdict.is_accepted

    (folder / "x.pkl").write_bytes(b"\x80\x04.")
    verdict = review(str(folder)).verdict
    assert (verdict.kind, verdict.is_accepted) == ("model", False)
    assert "x.pkl" in verdict.reasons[0].what
    with pytest.raises(RefusedError, match="Only measurements are merged"):
        review(str(folder), merge=True)


def test_a_folder_is_merged_into_a_folder_only(measured: Any, tmp_path: Path) -> None:
    folder = str(measured(tmp_path / "data", 0, 5))

    for against in (None, "hf-hub:acme/data"):
        with pytest.raises(RefusedError, match="give it with --against"):
            review(folder, against=against, merge=True)


def test_nothing_is_no_subject(tmp_path: Path) -> None:
    with pytest.raises(CosthubError, match="is neither a model folder"):
        review(str(tmp_path / "nothing"))
