from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

RECORDS = "database_tuning_record.json"


@pytest.fixture
def folder(searched: Path, tmp_path: Path) -> Path:
    """A copy of a real search."""
    (tmp_path / "db").mkdir()
    for name in (RECORDS, "database_workload.json"):
        shutil.copy(searched / name, tmp_path / "db" / name)
    return tmp_path / "db"


def damage(folder: Path) -> None:
    with (folder / RECORDS).open("ab") as file:
        file.write(b'\n[0,[[["')


@pytest.mark.slow
def test_a_sound_folder_exits_with_0_and_is_described(costhub: Any, folder: Path) -> None:
    output = costhub("doctor", str(folder), "--workers", "1")

    assert output.code == 0, output.err
    assert "12 lines: 12 good records of 2 workloads, 0 of programs that failed" in output.out
    assert output.out.endswith("db: 0 errors, 0 warnings, 0 notes.\n")


def test_damage_exits_with_1_and_the_copy_is_sound(costhub: Any, folder: Path, tmp_path: Path) -> None:
    damage(folder)
    before = (folder / RECORDS).read_bytes()

    output = costhub("doctor", str(folder), "--fix", str(tmp_path / "clean"), "--workers", "1")

    assert output.code == 1, output.err
    assert 'DB01 error, 1 breach of the rule "a record can be read"' in output.out
    assert f"{RECORDS} line 14: it is not JSON; perhaps it was cut off" in output.out
    assert f"Wrote 12 records of 2 workloads to {tmp_path / 'clean'}." in output.out
    assert (folder / RECORDS).read_bytes() == before
    assert costhub("doctor", str(tmp_path / "clean"), "--workers", "1").code == 0


@pytest.mark.slow
def test_warnings_count_where_they_are_to(costhub: Any, folder: Path) -> None:
    text = (folder / RECORDS).read_text().splitlines()
    (folder / RECORDS).write_text("\n".join([*text, text[0]]) + "\n")

    assert costhub("doctor", str(folder), "--no-replay").code == 0
    assert costhub("doctor", str(folder), "--no-replay", "--strict").code == 1


def test_json_and_the_manifest_hold_it_all(costhub: Any, folder: Path, searched: Path, tmp_path: Path) -> None:
    damage(folder)
    network, manifest = str(searched.parent / "net.json"), tmp_path / "reports" / "manifest.json"

    output = costhub("doctor", str(folder), "--json", "--network", network, "--manifest", str(manifest))

    found = json.loads(output.out)
    assert output.code == 1
    assert json.loads(manifest.read_text()) == found["manifest"]
    assert [each["rule"] for each in found["findings"]] == ["DB01", "DB02", "DB13"]
    coverage = found["coverage"]
    assert (coverage["network"], coverage["tuned"], coverage["trials"], coverage["foreign_trials"]) == ("net", 2, 12, 0)
    assert [each["trials"] for each in coverage["kernels"]] == [6, 6]


def test_coverage_is_a_table(costhub: Any, folder: Path, searched: Path) -> None:
    output = costhub("doctor", str(folder), "--network", str(searched.parent / "net.json"), "--no-replay")

    assert output.code == 0, output.err
    assert "net: 2 of 2 kernels tuned, 100.0% of the arithmetic" in output.out
    assert "matmul_relu.32x64.64x48" in output.out


def test_programs_are_run_where_that_is_wanted(costhub: Any, folder: Path) -> None:
    output = costhub("doctor", str(folder), "--run", "--best", "1", "--workers", "1")

    assert output.code == 0, output.err
    assert "Outputs compared: 2 programs, 0 wrong.\n" in output.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--best", "1"], "--best goes with --run"),
        (["--fast-math"], "--fast-math goes with --network"),
        (["--no-failures"], "--no-failures goes with --fix"),
        (["--no-replay", "--fix", "OUT"], "need replayed schedules"),
        (["--no-replay", "--run"], "need replayed schedules"),
        (["--network", "resnet81"], "There is no network named 'resnet81'"),
        (["--target", "nvidia-a101"], "There is no device named 'nvidia-a101'"),
        (["--target", '{"mcpu": "znver9"}', "--no-replay"], "has no good record for the target"),
        (["--network", "all"], "name one"),
        (["--network", "gone.pt2"], "There is no file gone.pt2"),
        (["--fix", "DB"], "exists and is not empty"),
    ],
)
def test_bad_input_is_one_sentence(
    costhub: Any, folder: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    places = {"OUT": str(tmp_path / "out"), "DB": str(folder)}

    output = costhub("doctor", str(folder), *[places.get(each, each) for each in arguments])

    assert (output.code, output.out) == (2, "")
    assert words in output.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("verb", [("doctor",), ("merge", "--out", "OUT")])
def test_a_folder_without_a_database_exits_with_2(costhub: Any, tmp_path: Path, verb: tuple[str, ...]) -> None:
    output = costhub(*[str(tmp_path / "out") if each == "OUT" else each for each in verb], str(tmp_path))

    assert output.code == 2
    assert "is not a MetaSchedule database: it lacks" in output.err
    assert "Traceback" not in output.err


def test_the_rules_are_listed(costhub: Any) -> None:
    from costhub.dataset.doctor.database_rules import DATABASE_RULES

    text, values = costhub("doctor", "--rules"), costhub("doctor", "--rules", "--json")

    assert len(text.out.splitlines()) == len(DATABASE_RULES)
    assert [each["id"] for each in json.loads(values.out)] == list(DATABASE_RULES)
