from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.check.folder import check_folder
from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import table_from_rows
from costhub.errors import RefusedError
from costhub.hub.contribute import Contribution, Offer, contribute
from costhub.hub.publish import publish
from costhub.hub.review.merge import merge_into
from costhub.hub.staged_rows import LeftOut, leave_out_disturbed, leave_out_held

Changed = Callable[..., Path]


@pytest.fixture
def changed(measured: Any, tmp_path: Path) -> Changed:
    """Makes a data folder in which some columns of the first `count` rows hold other values."""

    def make(name: str, count: int, **values: Any) -> Path:
        rows = DataFolder.open(measured(tmp_path / f"{name}-source", 100)).measurements().to_pylist()
        source = DataFolder.open(tmp_path / f"{name}-source")
        folder = DataFolder.create(tmp_path / name)
        for device in source.devices().to_pylist():
            folder.put_device(device)
        folder.put_workloads(source.workloads().to_pylist())
        for number, row in enumerate(rows[:count]):
            row.update({key: value(row, number) if callable(value) else value for key, value in values.items()})
        with folder.writer(rows[0]["device_id"]) as writer:
            writer.extend(table_from_rows("measurements", rows))
        return folder.path

    return make


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "count", "values"),
    [
        ("CH037", 7, {"load_average": 60.0}),
        ("CH040", 5, {"reference_drift": 0.9, "reference_s": lambda row, _: row["reference_s"] * 1.9}),
    ],
)
def test_rows_that_other_programs_disturbed_are_removed(
    rule: str, count: int, values: dict[str, Any], changed: Changed
) -> None:
    folder = changed("mine", count, **values)
    assert {finding.rule for finding in check_folder(folder)} >= {rule}

    assert leave_out_disturbed(folder) == count

    assert check_folder(folder) == []
    kept = DataFolder.open(folder).measurements()
    assert kept.num_rows == 40 - count
    assert all(load != 60.0 for load in kept["load_average"].to_pylist())


def test_of_a_noisy_session_no_row_is_kept(changed: Changed) -> None:
    def noisy(row: dict[str, Any], number: int) -> list[float]:
        first = row["run_s"][0] if row["run_s"] else 1e-3
        return [first] if number % 4 == 0 else [first, 1.2 * first]

    ok = {"status": "ok", "error": None, "run_wall_s": 60.0, "session": lambda _, number: f"session {number < 36}"}
    folder = changed("mine", 40, run_s=noisy, **ok)
    assert [finding.rule for finding in check_folder(folder)] == ["CH060"]

    assert leave_out_disturbed(folder) == 36, "those that were timed once too"

    assert set(DataFolder.open(folder).measurements()["session"].to_pylist()) == {"session False"}


def test_an_undisturbed_folder_stays_as_it_is(measured: Any, tmp_path: Path) -> None:
    folder = measured(tmp_path / "mine", 100)
    before = {path: path.read_bytes() for path in folder.rglob("*.parquet")}

    assert leave_out_disturbed(folder) == 0

    assert {path: path.read_bytes() for path in folder.rglob("*.parquet")} == before


def test_disturbed_rows_are_not_sent_and_the_offer_counts_them(changed: Changed, measured: Any, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    publish(measured(tmp_path / "published"), str(tmp_path / "hub"), name="lab/data", agree=True)
    offers: list[Offer] = []
    folder = changed("mine", 7, load_average=60.0)

    done = contribute(folder, str(tmp_path / "hub"), name="lab/data", deep=False, agree=_keeping(offers))

    assert done is not None
    assert offers[0].left_out == LeftOut(disturbed=7)
    assert offers[0].facts.total == 33
    sent = tmp_path / "hub/datasets/lab/data/contributions" / done.offer.contribution_id
    assert DataFolder.open(sent).measurements().num_rows == 33
    # The user's own folder is not touched.
    assert DataFolder.open(folder).measurements().num_rows == 40


@pytest.mark.slow
def test_a_folder_with_disturbed_rows_alone_has_nothing_to_send(
    changed: Changed, measured: Any, tmp_path: Path
) -> None:
    (tmp_path / "hub").mkdir()
    publish(measured(tmp_path / "published"), str(tmp_path / "hub"), name="lab/data", agree=True)

    with pytest.raises(RefusedError, match="all of its rows were measured beside other programs"):
        contribute(
            changed("mine", 40, load_average=60.0), str(tmp_path / "hub"), name="lab/data", deep=False, agree=True
        )


def test_another_fault_is_no_disturbance(changed: Changed, measured: Any, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    publish(measured(tmp_path / "published"), str(tmp_path / "hub"), name="lab/data", agree=True)
    folder = changed("mine", 7, load_average=60.0, clock_mhz=-1.0)

    with pytest.raises(RefusedError, match=r"CH037.*Also found: CH038"):
        contribute(folder, str(tmp_path / "hub"), name="lab/data", deep=False, agree=True)


def test_rows_that_the_dataset_has_are_left_out(measured: Any, tmp_path: Path) -> None:
    mine, hub = measured(tmp_path / "mine", 100, 40), measured(tmp_path / "hub", 120, 40)

    assert leave_out_held(mine, hub) == 20

    kept = set(DataFolder.open(mine).measurements()["record_id"].to_pylist())
    assert len(kept) == 20
    assert not kept & set(DataFolder.open(hub).measurements()["record_id"].to_pylist())


def test_only_the_rows_that_the_dataset_lacks_are_sent(measured: Any, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    publish(measured(tmp_path / "published", 120), str(tmp_path / "hub"), name="lab/data", agree=True)
    offers: list[Offer] = []

    # As many rows are sent as are left out.
    done = contribute(
        measured(tmp_path / "mine", 100), str(tmp_path / "hub"), name="lab/data", deep=False, agree=_keeping(offers)
    )

    assert done is not None
    assert (done.is_merged, done.offer.facts.total, offers[0].left_out) == (False, 20, LeftOut(held=20))


def test_a_merged_contribution_is_not_sent_again(measured: Any, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    publish(measured(tmp_path / "published"), str(tmp_path / "hub"), name="lab/data", agree=True)
    folder = measured(tmp_path / "mine", 100)
    merge_into(folder, tmp_path / "hub/datasets/lab/data")

    done = contribute(
        folder, str(tmp_path / "hub"), name="lab/data", deep=False, agree=lambda _: pytest.fail("it was offered")
    )

    assert isinstance(done, Contribution)
    assert (done.was_there, done.is_merged, done.review_command) == (True, True, None)
    assert not (tmp_path / "hub/datasets/lab/data/contributions").exists()


def _keeping(offers: list[Offer]) -> Callable[[Offer], bool]:
    def agree(offer: Offer) -> bool:
        offers.append(offer)
        return True

    return agree
