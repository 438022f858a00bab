"""What waits for a review: read with care, because nobody has checked it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costhub.errors import ArgumentError, CosthubError
from costhub.hub.catalogue.hubs import HUB_VARIABLE
from costhub.hub.contribute import contribute
from costhub.hub.publish import publish
from costhub.hub.review import waiting
from costhub.hub.review.waiting import list_waiting

SHARD = "measurements/amd-epyc-zen5-1c/train-00000-of-00001.parquet"
JUNE, JULY = 1_780_272_000, 1_782_864_000
"""The first of each month of 2026, UTC."""


@pytest.fixture
def send(measured: Any, unchecked: None, tmp_path: Path) -> Callable[..., Path]:
    """Makes the hub tmp_path/hub with lab/data, once, and sends rows to it; gives the contribution's folder."""
    hub = tmp_path / "hub"

    def sent(name: str, start: int, *, when: int) -> Path:
        if not hub.exists():
            hub.mkdir()
            publish(measured(tmp_path / "published"), str(hub), name="lab/data", agree=True)
        done = contribute(measured(tmp_path / name, start, 10), str(hub), name="lab/data", deep=False, agree=True)
        assert done is not None
        place = hub / "datasets/lab/data/contributions" / done.offer.contribution_id
        for path in place.rglob("*"):
            os.utime(path, (when, when))
        return place

    return sent


def test_what_waits_in_the_hubs_here_is_listed_oldest_first(
    send: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later, first = send("later", 100, when=JULY), send("first", 200, when=JUNE)
    monkeypatch.setenv(HUB_VARIABLE, str(tmp_path / "hub"))

    found = list_waiting()

    assert [each.address for each in found] == [str(first), str(later)]
    assert [each.since for each in found] == ["2026-06-01", "2026-07-01"]
    (each, _) = found
    assert (each.devices, each.rows, each.problem) == (("amd-epyc-zen5-1c",), 10, None)
    assert each.licences == ("CC-BY-4.0",)
    assert each.workloads is not None
    assert 1 <= each.workloads <= 10


@pytest.mark.slow
@pytest.mark.parametrize("where", ["hub", "hub/datasets/lab/data", "lab/data"])
def test_a_hub_and_a_dataset_can_be_named(
    where: str, send: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = send("mine", 100, when=JUNE)
    if where == "lab/data":
        monkeypatch.setenv(HUB_VARIABLE, str(tmp_path / "hub"))
    else:
        where = str(tmp_path / where)

    assert [each.address for each in list_waiting(where)] == [str(place)]


def test_what_cannot_be_read_is_said_to_be_so_and_hides_nothing(send: Any, tmp_path: Path) -> None:
    broken, sound = send("broken", 100, when=JUNE), send("sound", 200, when=JULY)
    (broken / SHARD).write_bytes(b"PAR1" + bytes(50) + b"\xff\xff\xff\x7fPAR1")
    link = broken.with_name("0000000000000000")
    link.symlink_to(tmp_path / "published")

    found = {each.address: each for each in list_waiting(str(tmp_path / "hub"))}

    assert found[str(broken)].problem == "its rows cannot be read"
    assert (found[str(link)].problem, found[str(link)].rows) == ("it is a link", None)
    assert (found[str(sound)].problem, found[str(sound)].rows) == (None, 10)


def test_where_nothing_waits_nothing_is_listed(measured: Any, tmp_path: Path) -> None:
    assert list_waiting(str(measured(tmp_path / "data", 0, 5))) == []
    with pytest.raises(CosthubError, match="is not the folder of a hub"):
        list_waiting(str(tmp_path))
    with pytest.raises(CosthubError, match="no-such-data"):
        list_waiting("no-such-data")


def test_open_pull_requests_of_contributions_are_listed(offered: Any, hugging_face: Any) -> None:
    address = offered()
    closed = offered("other", start=100, count=5)
    hugging_face.pulls["datasets/acme/data"][1].status = "closed"
    offered("talk", start=200, count=5)
    hugging_face.pulls["datasets/acme/data"][2].title = "Fix a typo"

    (found,) = list_waiting("hf-hub:acme/data")

    assert (found.address, found.devices) == (address, ("amd-epyc-zen5-1c",))
    assert found.address != closed
    assert found.rows is not None
    assert found.rows > 100
    assert (found.workloads, found.licences, found.contributors) == (None, (), ("tester",))
    assert found.since == "2026-01-02"


def test_a_revision_is_refused_as_none_is_listed() -> None:
    with pytest.raises(ArgumentError, match=r"names a revision, .*: write hf-hub:acme/data\."):
        list_waiting("hf-hub:acme/data@refs/pr/3")


def test_a_dataset_that_the_hub_lacks_is_a_sentence(hugging_face: Any) -> None:
    with pytest.raises(CosthubError, match="does not exist, or you may not read it"):
        list_waiting("hf-hub:acme/nothing")


def test_a_date_that_no_calendar_has_is_left_out(send: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends files chooses their times, and some file systems keep any."""
    place = send("mine", 100, when=JUNE)
    monkeypatch.setattr(waiting, "_sent_s", lambda place: 4e11)

    (found,) = list_waiting(str(tmp_path / "hub"))

    assert (found.address, found.since, found.problem) == (str(place), None, None)
