from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.folder import DataFolder
from costhub.hub.review import contribution as module
from costhub.hub.review.contribution import review_contribution

SHARD = "measurements/amd-epyc-zen5-1c/train-00000-of-00001.parquet"


def refusals(folder: Path, held: Path | None) -> list[str]:
    verdict = review_contribution(folder, held, deep=False)
    return [reason.what for reason in verdict.reasons if reason.weight == "refuse"]


def test_two_sessions_of_one_device_agree(measured: Any, tmp_path: Path) -> None:
    held, new = (measured(tmp_path / f"{session}", session=session) for session in (0, 1))

    verdict = review_contribution(new, held, deep=False)

    assert verdict.is_accepted
    (found,) = verdict.comparisons
    assert found.repeated > 100
    assert found.shift is not None
    assert 0.9 < found.shift < 1.1
    assert found.agreement is not None
    assert found.agreement > 0.9


def test_the_first_of_a_device_has_nothing_beside_it(measured: Any, tmp_path: Path) -> None:
    verdict = review_contribution(measured(tmp_path / "new"), None, deep=False)

    assert verdict.is_accepted
    assert "nothing to compare with" in verdict.reasons[0].what


def test_twice_as_slow_is_another_device(measured: Any, tmp_path: Path) -> None:
    held, new = (measured(tmp_path / f"{session}", session=session) for session in (0, 1))
    folder = DataFolder.open(new)
    rows = folder.measurements().to_pylist()
    slow = DataFolder.create(tmp_path / "slow")
    slow.put_device(folder.devices().to_pylist()[0])
    slow.put_workloads(folder.workloads().to_pylist())
    with slow.writer("amd-epyc-zen5-1c") as writer:
        for row in rows:
            changed = {"run_s": [2 * seconds for seconds in row["run_s"]], "run_wall_s": None}
            writer.append({**row, **changed, "record_id": f"s{row['record_id']}"})

    (what,) = refusals(slow.path, held)
    assert "times as long here" in what


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"peak_gflops": 1e5},
        {"dram_gbs": 1e4},
        {"cores": 64},
        {"microarchitecture": "zen9"},
    ],
)
def test_a_probe_that_would_hide_a_roofline_is_refused(changes: dict[str, Any], measured: Any, tmp_path: Path) -> None:
    held, new = (measured(tmp_path / f"{session}", session=session) for session in (0, 1))
    folder = DataFolder.open(new)
    folder.put_device({**folder.devices().to_pylist()[0], **changes})

    found = refusals(new, held)

    (said,) = [what for what in found if f"{next(iter(changes))} differs from the hub's row" in what]
    assert ("repeat the probe" in said) == (changes.keys() <= {"peak_gflops", "dram_gbs", "cores"})
    assert ("another device" in said) == ("microarchitecture" in changes)


def test_a_device_without_the_figures_of_the_hub_is_told_what_to_do(measured: Any, tmp_path: Path) -> None:
    held, new = (measured(tmp_path / f"{session}", session=session) for session in (0, 1))
    folder = DataFolder.open(new)
    folder.put_device({**folder.devices().to_pylist()[0], "peak_gflops": None})

    (what,) = refusals(new, held)

    assert "lacks the device's peak_gflops. On the device, run `costhub probe --out FOLDER`" in what


def test_what_has_an_error_is_not_read_any_further(measured: Any, tmp_path: Path) -> None:
    new = measured(tmp_path / "new")
    shard = new / SHARD
    shard.write_bytes(shard.read_bytes()[:-300] + bytes(300))

    verdict = review_contribution(new, new, deep=False)

    assert not verdict.is_accepted
    assert verdict.comparisons == ()
    assert verdict.findings[0].severity == "error"


def test_nothing_is_no_contribution(tmp_path: Path) -> None:
    DataFolder.create(tmp_path / "empty")

    assert refusals(tmp_path / "empty", None) == ["It holds no measurement."]


def with_rows(folder: Path, made: Path, **changes: Any) -> Path:
    """The same folder with other values in its rows; a device folder of that name where it is the device."""
    old = DataFolder.open(folder)
    new = DataFolder.create(made)
    device_id = changes.get("device_id", "amd-epyc-zen5-1c")
    new.put_device({**old.devices().to_pylist()[0], "device_id": device_id})
    new.put_workloads(old.workloads().to_pylist())
    with new.writer(device_id) as writer:
        for row in old.measurements().to_pylist():
            writer.append({**row, **changes})
    return made


def test_a_new_device_lands_beside_one_that_is_held(measured: Any, tmp_path: Path) -> None:
    held = measured(tmp_path / "held", 0, 5)
    other = with_rows(measured(tmp_path / "more", 10, 5), tmp_path / "new", device_id="other-cpu")
    folder = DataFolder.open(other)
    folder.put_device(DataFolder.open(held).devices().to_pylist()[0])
    folder.put_workloads(DataFolder.open(held).workloads().to_pylist())
    shutil.copytree(held / "measurements/amd-epyc-zen5-1c", other / "measurements/amd-epyc-zen5-1c")

    assert refusals(other, held) == []


@pytest.mark.slow
@pytest.mark.parametrize("native_first", [True, False])
def test_rows_of_two_compilers_are_not_one_dataset(native_first: bool, measured: Any, tmp_path: Path) -> None:
    native = measured(tmp_path / "native", 0, 5)
    replayed = with_rows(measured(tmp_path / "more", 10, 5), tmp_path / "replayed", transplanted_from="ansor")
    held, new = (native, replayed) if native_first else (replayed, native)

    assert [what for what in refusals(new, held) if "replayed from another compiler's logs" in what] != []
    assert [what for what in refusals(new, None) if "another compiler's" in what] == []


def test_rows_of_two_compilers_are_not_one_contribution(measured: Any, tmp_path: Path) -> None:
    replayed = with_rows(measured(tmp_path / "more", 10, 5), tmp_path / "mixed", transplanted_from="ansor")
    native = DataFolder.open(measured(tmp_path / "native", 0, 5)).measurements().to_pylist()
    with DataFolder.open(replayed).writer("amd-epyc-zen5-1c") as writer:
        for row in native:
            writer.append(row)

    assert [what for what in refusals(replayed, None) if "replayed from another compiler's logs" in what] != []


def test_a_record_of_another_device_is_refused(measured: Any, tmp_path: Path) -> None:
    held = measured(tmp_path / "held", 0, 5)
    new = with_rows(held, tmp_path / "new", device_id="other-cpu")

    assert [what for what in refusals(new, held) if "5 rows have the record_id" in what] != []


def test_a_licence_that_a_hub_does_not_know_is_refused(measured: Any, tmp_path: Path) -> None:
    new = with_rows(measured(tmp_path / "held", 0, 5), tmp_path / "new", licence="all-rights-reserved")

    assert [what for what in refusals(new, None) if "'all-rights-reserved'" in what] != []


def test_more_than_a_review_takes_is_not_unpacked(
    measured: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = measured(tmp_path / "new", 0, 5)
    for name in ("MOST_ROWS", "MOST_BYTES"):
        with monkeypatch.context() as changed:
            changed.setattr(module, name, 4)
            changed.setattr(module, "check_folder", None)
            (what,) = refusals(new, None)
        assert "more than a review accepts" in what


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link in place of a shard": (lambda folder: _link(folder / SHARD, "/etc/passwd"), "is a link"),
    "a link to a folder": (lambda folder: _link(folder / "measurements/x", "/"), "is a link"),
    "a pickle beside the shards": (
        lambda folder: (folder / SHARD).with_name("x.pkl").write_bytes(b"\x80\x04."),
        "CH008",
    ),
    "a pickle as a shard": (lambda folder: (folder / SHARD).write_bytes(b"\x80\x04."), "CH001"),
    "a shard cut short": (lambda folder: _cut(folder / SHARD, 1000), "CH001"),
    "a flipped byte": (lambda folder: _flip(folder / SHARD, 2000), "CH002"),
    "an empty shard": (lambda folder: (folder / SHARD).write_bytes(b""), "CH001"),
    "a footer of gigabytes": (lambda folder: _footer(folder / SHARD, b"\xff\xff\xff\x7fPAR1"), "CH001"),
    "a folder as a shard": (lambda folder: _folder(folder / SHARD), "CH053"),
    "devices as measurements": (
        lambda folder: shutil.copy(folder / "devices/train-00000-of-00001.parquet", folder / SHARD),
        "CH004",
    ),
    "another device's folder": (
        lambda folder: (folder / SHARD).parent.rename(folder / "measurements/other"),
        "CH014",
    ),
    "no devices": (lambda folder: shutil.rmtree(folder / "devices"), "CH013"),
    "no workloads": (lambda folder: shutil.rmtree(folder / "workloads"), "CH012"),
}


def _link(path: Path, target: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def _flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(bytes(content))


def _footer(path: Path, end: bytes) -> None:
    path.write_bytes(path.read_bytes()[: -len(end)] + end)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_data_folder_is_refused_and_left_as_it_is(kind: str, measured: Any, tmp_path: Path) -> None:
    folder = measured(tmp_path / "data", 0, 20)
    spoil, rule = HOSTILE[kind]
    spoil(folder)
    before = sorted(str(path) for path in tmp_path.rglob("*"))

    found = refusals(folder, None)

    assert [what for what in found if rule in what] != []
    assert all(what.isprintable() and what.endswith((".", ")")) for what in found)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
