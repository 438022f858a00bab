"""What an interrupted examination leaves for the next one, and that a cache of somebody else is not believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.doctor import examine as module
from costhub.dataset.doctor import verdicts as cached
from costhub.dataset.doctor.clean_copy import write_clean_copy
from costhub.dataset.doctor.examine import examine_database
from costhub.dataset.doctor.in_children import examine_records
from costhub.dataset.doctor.verdicts import Verdict, Verdicts
from costhub.dataset.metaschedule.import_pool import ImportPool
from costhub.errors import DataError
from costhub.files import CACHE_VARIABLE
from costhub.isolation.pool import STARVED, ChildPool, LostCall


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def replays(monkeypatch: pytest.MonkeyPatch, *, stop_after: int | None = None) -> list[int]:
    """How many records each call of the children got; the call after `stop_after` of them is interrupted."""
    counts: list[int] = []
    replay = ImportPool.replay

    def counted(self: ImportPool, calls: Any) -> Any:
        def seen() -> Any:
            for call in calls:
                if call[2]:
                    if stop_after is not None and sum(counts) >= stop_after:
                        raise KeyboardInterrupt
                    counts.append(len(call[2]))
                yield call

        yield from replay(self, seen())

    monkeypatch.setattr(ImportPool, "replay", counted)
    return counts


def test_an_interrupted_examination_goes_on_where_it_stopped(
    search: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = search.write(tmp_path / "db")
    monkeypatch.setattr(module, "_BATCH", 4)
    with monkeypatch.context() as patched:
        replays(patched, stop_after=4)
        with pytest.raises(KeyboardInterrupt):
            examine_database(folder, workers=1, progress=False)

    again = replays(monkeypatch)
    found = examine_database(folder, workers=1, progress=False)

    assert 0 < sum(again) <= 8
    assert (len(found.records), found.log.findings()) == (12, [])


@pytest.mark.parametrize("is_target_late", [False, True])
def test_a_busy_machine_leaves_no_verdict(
    is_target_late: bool, search: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, tried = search.write(tmp_path / "db"), ChildPool._try

    def starved(self: ChildPool, child: Any, function: Any, args: Any, timeout_s: float) -> Any:
        is_late = function is examine_records and (is_target_late or args[2])
        return LostCall(STARVED) if is_late else tried(self, child, function, args, timeout_s)

    with monkeypatch.context() as patched:
        patched.setattr(ChildPool, "_try", starved)
        found = examine_database(folder, workers=1, progress=False)
    assert (len(found.records), found.log.counts["DB06"]) == (0, 12)
    assert "too busy" in found.log.findings()[0].message
    with pytest.raises(DataError, match="Nothing was written: this machine was too busy to judge 12 lines"):
        write_clean_copy([found], tmp_path / "clean")
    assert not (tmp_path / "clean").exists()

    again = examine_database(folder, workers=1, progress=False)

    assert (len(again.records), again.log.findings()) == (12, [])


def test_a_second_examination_replays_nothing_and_finds_the_same(
    search: Any, real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search.change(4, trace=[[], [[7, 1]]])
    folder = search.write(tmp_path / "db")
    first = [examine_database(each, workers=1, progress=False) for each in (folder, real / "bennu-tvm017")]

    counts = replays(monkeypatch)
    second = [examine_database(each, workers=1, progress=False) for each in (folder, real / "bennu-tvm017")]

    assert counts == []
    assert [each.log for each in second] == [each.log for each in first]
    assert [each.records for each in second] == [each.records for each in first]


def test_verdicts_outlive_the_process_but_not_damage_or_a_stranger(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Verdicts("w") as verdicts:
        verdicts.put([("a", Verdict()), ("b", Verdict("why", True, "[]"))])
    [file] = (cache / "doctor").iterdir()
    with file.open("a") as broken:
        broken.write('["c","cut o')

    with Verdicts("w") as again:
        assert [again.get(key) for key in "abc"] == [Verdict(), Verdict("why", True, "[]"), None]
    monkeypatch.setattr(cached, "is_own", lambda path: False)
    with Verdicts("w") as foreign:
        assert foreign.get("a") is None


def test_a_cache_that_cannot_be_written_costs_nothing_else(cache: Path) -> None:
    cache.write_text("a file in its place")

    with Verdicts("w") as verdicts:
        verdicts.put([("a", Verdict())])
        assert verdicts.get("a") == Verdict()


def test_a_full_disk_ends_the_caching_only(cache: Path) -> None:
    with Path("/dev/full").open("a", encoding="utf-8") as full, Verdicts("w") as verdicts:
        assert verdicts._file is not None
        verdicts._file.close()
        verdicts._file = full
        for key in ("a", "b"):
            verdicts.put([(key, Verdict())])
        assert verdicts._file is None
        assert verdicts.get("b") == Verdict()
