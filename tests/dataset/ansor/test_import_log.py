from __future__ import annotations

import json
import lzma
import os
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.ansor.import_log import LogSource, import_ansor
from costhub.dataset.ansor.named_workloads import parse_key
from costhub.dataset.check.folder import check_folder
from costhub.dataset.folder import DataFolder
from costhub.dataset.metaschedule.import_pool import ImportPool
from costhub.dataset.metaschedule.lines import ImportReport
from costhub.dataset.trace import replay
from costhub.dataset.workload import workload_id
from costhub.errors import DataError
from tests.dataset.ansor.ansor_steps import MATMUL, Tiles, record

TARGET = {
    "kind": "cuda",
    "arch": "sm_70",
    "max_threads_per_block": 1024,
    "max_shared_memory_per_block": 49152,
    "thread_warp_size": 32,
}
SOURCE = LogSource({"device_id": "gpu0", "kind": "cuda", "target": json.dumps(TARGET)}, "Ada", "MIT", "0.7")

MMPERF = (
    rb'{"i": [["[\"matmul\", 16, 1024, 512, \"float16\"]", '
    rb'"cuda -keys=cuda,gpu -arch=sm_80 -max_num_threads=1024 -thread_warp_size=32", [-1, 16, 64, 49152, '
    rb'2147483647, 1024, 8, 32], "", 0, []], [[], [["CHW", 2, "local"], ["SP", 2, 0, 16, [2, 2, 1, 1], 1], '
    rb'["SP", 2, 5, 1024, [2, 64, 2, 1], 1], ["SP", 2, 10, 512, [4, 8], 1], ["RE", 2, [0, 5, 1, 6, 2, 7, '
    rb'10, 11, 3, 8, 12, 4, 9]], ["FSP", 3, 0, 1, 3], ["FSP", 3, 4, 2, 3], ["RE", 3, [0, 4, 1, 5, 2, 6, 3, '
    rb'7]], ["CA", 2, 3, 5], ["CHR", 1, "shared", [2]], ["CA", 2, 3, 6], ["CHR", 0, "shared", [3]], ["CA", '
    rb'1, 4, 6], ["FU", 5, [0, 1]], ["AN", 5, 0, 5], ["FU", 5, [1, 2]], ["AN", 5, 1, 4], ["FU", 5, [2, '
    rb'3]], ["AN", 5, 2, 6], ["FU", 3, [0, 1]], ["SP", 3, 0, 64, [8], 1], ["AN", 3, 1, 2], ["FFSP", 3, 0, '
    rb'[2, 1], 1, 1], ["AN", 3, 1, 6], ["FU", 1, [0, 1]], ["SP", 1, 0, 32, [4], 1], ["AN", 1, 1, 2], '
    rb'["FFSP", 1, 0, [2, 1], 1, 1], ["AN", 1, 1, 6], ["PR", 4, 0, "auto_unroll_max_step$512"]]]], '
    rb'"r": [[1.87837e-05], 0, 2.41143, 1653002584], "v": "v0.6"}'
)
"""A record of mmperf/mmperf (Apache-2.0): line 6 of tvm_tuner/matmul_16x1024x512.json at 4a565662403e."""


def run(path: Path, out: Path) -> ImportReport:
    return import_ansor(path, out, source=SOURCE, workers=1, progress=False)


def write(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_a_program_that_fails_twice_has_failed_twice(tmp_path: Path) -> None:
    lines = [record(MATMUL, Tiles().steps(), 1e-3, error) for error in (3, 7, 7)]

    report = run(write(tmp_path / "a.log", *lines), tmp_path / "out")

    assert (report.failed, report.duplicates, report.refused) == (2, 1, 0)


@pytest.mark.slow
def test_records_become_programs_with_the_same_launch(tmp_path: Path) -> None:
    other = Tiles(spatial=((4, 1, 8, 1, 2), (2, 2, 16, 2, 1)), vectors=(1, 3), unroll=512)
    lines = [
        record(MATMUL, Tiles().steps()),
        record(MATMUL, other.steps(), 2e-3),
        record(MATMUL, other.steps(), 3e-3, 4),
    ]

    report = run(write(tmp_path / "a.log", *lines), tmp_path / "out")

    assert report == ImportReport(workloads=1, ok=2, failed=1)
    folder = DataFolder.open(tmp_path / "out")
    assert check_folder(folder.path, deep=True) == []
    [workload] = folder.workloads().to_pylist()
    module = parse_key(MATMUL).module()
    assert (workload["workload_id"], workload["name"]) == (workload_id(module), "matmul_64x32_32x128")
    rows = sorted(folder.measurements("gpu0").to_pylist(), key=lambda row: (row["status"], row["run_s"]))
    assert [(row["run_s"], row["status"], row["error"]) for row in rows] == [
        ([1e-3], "ok", None),
        ([2e-3], "ok", None),
        ([], "run_error", "Ansor's error 4, RUNTIME_DEVICE."),
    ]
    shared = {
        name: rows[0][name]
        for name in ("proposed_by", "transplanted_from", "licence", "contributor", "tvm_version", "timestamp")
    }
    assert shared == {
        "proposed_by": "ansor",
        "transplanted_from": "ansor",
        "licence": "MIT",
        "contributor": "Ada",
        "tvm_version": "0.7",
        "timestamp": datetime(2021, 11, 22, 9, 57, 19, tzinfo=timezone.utc),
    }
    for row, (blocks, vthreads, threads) in zip(rows, [(8, 2, 32), (8, 2, 128), (8, 2, 128)], strict=True):
        script = replay(module, row["trace"]).mod.script()
        for axis, extent in (("blockIdx.x", blocks), ("vthread.x", vthreads), ("threadIdx.x", threads)):
            assert f'T.thread_binding({extent}, thread="{axis}"' in script


def test_a_real_record_of_mmperf_becomes_its_program(tmp_path: Path) -> None:
    """In float16, which has vectors of eight; the order of the extents is rows, columns, inner extent."""
    report = run(write(tmp_path / "a.log", MMPERF), tmp_path / "out")

    assert report == ImportReport(workloads=1, ok=1)
    folder = DataFolder.open(tmp_path / "out")
    assert check_folder(folder.path, deep=True) == []
    [workload] = folder.workloads().to_pylist()
    assert workload["name"] == "matmul_16x512_512x1024_float16"
    assert json.loads(workload["shapes"]) == [[16, 512], [512, 1024], [16, 1024]]
    assert set(workload["dtypes"]) == {"float16"}
    [row] = folder.measurements("gpu0").to_pylist()
    assert (row["run_s"], row["timestamp"].year) == ([1.87837e-05], 2022)
    instructions, decisions = json.loads(row["trace"])
    chosen = [decision for number, decision in decisions if instructions[number][0] == "SamplePerfectTile"]
    assert chosen == [[4, 2, 2, 1, 1], [4, 2, 64, 2, 1], [16, 4, 8]]
    module = parse_key(json.loads(MMPERF)["i"][0][0]).module()
    script = replay(module, row["trace"]).mod.script()
    assert re.findall(r'T\.vectorized\((\d)\):\n +with T\.sblock\("(\w+)"', script) == [
        ("4", "A_shared"),
        ("8", "B_shared"),
    ]


def test_a_record_whose_extents_are_in_another_order_is_refused(tmp_path: Path) -> None:
    """The splits say which axis is which, so a function of the same name with other parameters is not mistaken."""
    other = MMPERF.replace(b"16, 1024, 512,", b"16, 512, 1024,")

    report = run(write(tmp_path / "a.log", other), tmp_path / "out")

    assert (report.ok, report.reasons) == (0, {"its sketch does not fit the workload": 1})


def test_an_import_resumes_and_says_what_it_left_out(tmp_path: Path) -> None:
    (tmp_path / "logs" / "deep").mkdir(parents=True)
    good = record(MATMUL, Tiles().steps())
    write(tmp_path / "logs" / "a.json", good, good, b"", good[:-9], b"[1]", b'{"i":[],"r":[]}')
    lines = [
        record('["d7b65649a4dd54becea0a52aabbc5af5"]', []),
        record('["pool_layer", 1]', []),
        record(MATMUL, Tiles(vectors=(8, 1)).steps()),
        record(MATMUL, Tiles(reduction=((4, 4, 4),)).steps()),  # of another extent than the workload's
        record(MATMUL, Tiles(spatial=((2, 2, 2, 4, 2), (2, 1, 2, 16, 2))).steps(), -1.0),
        record(MATMUL, Tiles().steps(), 1e-3, 99),
        record(MATMUL, Tiles(spatial=((1, 1, 64, 1, 1), (1, 1, 128, 1, 1))).steps()),  # 8,192 threads
    ]
    with lzma.open(tmp_path / "logs" / "deep" / "b.jsonl.xz", "wb") as file:
        file.write(b"\n".join(lines))

    report = run(tmp_path / "logs", tmp_path / "out")

    assert (report.ok, report.failed, report.duplicates, report.refused) == (1, 0, 1, 11)
    reasons = "\n".join(report.reasons)
    for part in (
        "is blank",
        "not a record",
        "a hash",
        "pool_layer",
        "lengths other than",
        "VerifyGPUCode",
        "error number 99",
    ):
        assert part in reasons
    again = run(tmp_path / "logs", tmp_path / "out")
    assert (again.ok, again.known, again.refused) == (0, 1, 11)
    assert DataFolder.open(tmp_path / "out").measurements().num_rows == 1


def test_times_that_contradict_each_other_are_kept_and_counted(tmp_path: Path) -> None:
    steps = Tiles().steps()
    lines = [record(MATMUL, steps, cost) for cost in (1e-3, 1.9e-3, 2.1e-3)]

    report = run(write(tmp_path / "a.log", *lines), tmp_path / "out")

    assert (report.ok, report.contradictions) == (3, 1)
    assert "perhaps two logs use one key" in "\n".join(report.sentences())


def test_a_truncated_archive_gives_what_it_holds(tmp_path: Path) -> None:
    costs = [1e-3 + number * 1e-9 for number in range(200)]
    whole = lzma.compress(b"\n".join(record(MATMUL, Tiles().steps(), cost) for cost in costs))
    (tmp_path / "a.jsonl.xz").write_bytes(whole[: len(whole) // 2])

    report = run(tmp_path / "a.jsonl.xz", tmp_path / "out")

    assert 0 < report.ok < 200
    assert "damaged" in str(report.reasons)


@pytest.mark.parametrize(
    ("lines", "source", "why"),
    [
        ([b"{}"], SOURCE, "No record in these logs"),
        ([record('["matmul_layer", 1]', [])], SOURCE, "No record in these logs"),
        ([record(MATMUL, [])], LogSource({"device_id": "gpu0", "kind": "cuda"}), "has no target"),
        ([record(MATMUL, [])], LogSource({"kind": "cuda", "target": "cuda"}), "has no `device_id`"),
        ([record(MATMUL, [])], LogSource({"device_id": "gpu0", "target": "nonsense"}), "does not accept the target"),
        ([record(MATMUL, [])], LogSource({"device_id": "gpu0", "target": "{"}), "does not accept the target"),
        ([record(MATMUL, [])], LogSource({"device_id": "g", "kind": "rocm", "target": "cuda"}), "of kind 'rocm', but"),
        (None, SOURCE, "holds no log"),
    ],
)
def test_nothing_to_import_is_an_error(tmp_path: Path, lines: Any, source: LogSource, why: str) -> None:
    if lines is not None:
        write(tmp_path / "a.log", *lines)
    with pytest.raises(DataError, match=why):
        import_ansor(tmp_path, tmp_path.parent / f"{tmp_path.name}-out", source=source, workers=1, progress=False)


def test_a_target_may_be_a_name_and_written_in_any_order(tmp_path: Path) -> None:
    """The record ids do not depend on how the target was written, so an import resumes."""
    path = write(tmp_path / "a.log", record(MATMUL, Tiles().steps()))
    run(path, tmp_path / "out")
    again = LogSource({"device_id": "gpu0", "target": json.dumps(dict(reversed(TARGET.items())), indent=1)})

    report = import_ansor(path, tmp_path / "out", source=again, workers=1, progress=False)
    named = LogSource({"device_id": "gpu1", "target": "nvidia/nvidia-v100"})
    other = import_ansor(path, tmp_path / "out", source=named, workers=1, progress=False)

    assert (report.known, other.ok) == (1, 1)
    [target] = DataFolder.open(tmp_path / "out").measurements("gpu1", ["target"])["target"].to_pylist()
    assert json.loads(target)["arch"] == "sm_70"


def test_what_an_import_cost_is_said(tmp_path: Path) -> None:
    report = run(write(tmp_path / "a.log", record(MATMUL, Tiles().steps())), tmp_path / "out")

    assert report.seconds > 0
    assert report.lines == 1
    assert "lines a second, with at most" in report.sentences()[-1]


def test_memory_that_a_compressed_log_asks_for_is_bounded(tmp_path: Path) -> None:
    window = [{"id": lzma.FILTER_LZMA2, "dict_size": 512 << 20}]
    (tmp_path / "a.log.xz").write_bytes(lzma.compress(record(MATMUL, Tiles().steps()), filters=window))

    with pytest.raises(DataError, match="No record"):
        run(tmp_path / "a.log.xz", tmp_path / "out")


def test_xz_streams_may_follow_one_another(tmp_path: Path) -> None:
    lines = [record(MATMUL, Tiles().steps(), cost) + b"\n" for cost in (1e-3, 2e-3)]
    (tmp_path / "a.log.xz").write_bytes(lzma.compress(lines[0]) + b"\0" * 8 + lzma.compress(lines[1]))

    assert run(tmp_path / "a.log.xz", tmp_path / "out").ok == 2


def test_only_plain_files_of_a_folder_are_read(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    write(tmp_path / "elsewhere.log", record(MATMUL, Tiles().steps(), 2e-3))
    (logs / "link.log").symlink_to(tmp_path / "elsewhere.log")
    os.mkfifo(logs / "pipe.log")
    write(logs / "\x1b[31m.log", b"[1]", record(MATMUL, Tiles().steps()))

    report = run(logs, tmp_path / "out")

    assert (report.ok, report.refused) == (1, 1)
    assert report.refusals[0].file == "?[31m.log"
    with pytest.raises(DataError, match="is a named pipe"):
        run(logs / "pipe.log", tmp_path / "out")


@pytest.mark.slow
def test_a_million_lines_are_counted(tmp_path: Path) -> None:
    """Of every kind that a log can hold and this import refuses."""
    kinds = [
        b"[]",
        record('["d7b65649a4dd54becea0a52aabbc5af5"]', []),
        record('["pool_layer", 1]', []),
        b"{" * 60,
        record(MATMUL, Tiles().steps(), 1e-3, 99),
    ]
    with (tmp_path / "a.log").open("wb") as file:
        file.write(record(MATMUL, Tiles().steps()) + b"\n")
        for _ in range(200_000):
            file.write(b"\n".join(kinds) + b"\n")

    report = run(tmp_path / "a.log", tmp_path / "out")

    assert (report.ok, report.refused, len(report.reasons)) == (1, 1_000_000, 4)
    assert len(report.refusals) == 1000


def at(second: int, cost: float, **tiles: Any) -> bytes:
    entry = json.loads(record(MATMUL, Tiles(**tiles).steps(), cost))
    entry["r"][3] = second
    return json.dumps(entry).encode()


def test_an_import_goes_on_where_it_stopped_and_replays_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id of a row needs its program, which is only known after a replay; what is there is found without."""
    first = [at(1637575039, 1.5e-3), at(1637575040, 1e-3), at(1637575040, 1e-3, unroll=16)]
    write(tmp_path / "a.log", *first)
    run(tmp_path / "a.log", tmp_path / "out")
    asked: list[int] = []
    replay_calls = ImportPool.replay
    monkeypatch.setattr(
        ImportPool,
        "replay",
        lambda self, calls: replay_calls(self, [*map(lambda c: asked.append(len(c[2])) or c, calls)]),
    )

    write(tmp_path / "a.log", *first, at(1637575041, 2e-3), at(1637575040, 1e-3, unroll=512))
    report = run(tmp_path / "a.log", tmp_path / "out")

    assert (report.known, report.ok, asked) == (3, 2, [2])
    assert DataFolder.open(tmp_path / "out").measurements().num_rows == 5


def test_two_times_of_one_program_in_one_second_are_not_two_rows(tmp_path: Path) -> None:
    write(tmp_path / "a.log", at(1637575039, 1e-3), at(1637575039, 1.1e-3))

    report = run(tmp_path / "a.log", tmp_path / "out")
    again = run(tmp_path / "a.log", tmp_path / "out")

    assert (report.ok, report.refused) == (1, 1)
    assert "measured before in the same second" in next(iter(report.reasons))
    assert (again.known, again.ok) == (2, 0)


def test_native_measurements_of_the_device_stay_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", record(MATMUL, Tiles().steps()))
    run(path, tmp_path / "first")
    [row] = DataFolder.open(tmp_path / "first").measurements("gpu0").to_pylist()
    folder = DataFolder.create(tmp_path / "out")
    folder.put_device({"device_id": "gpu0", "kind": "cuda"})
    with folder.writer("gpu0") as writer:
        writer.append(row | {"transplanted_from": None})

    with pytest.raises(DataError, match="has native measurements of 'gpu0'"):
        run(path, tmp_path / "out")
    assert DataFolder.open(tmp_path / "out").workloads().num_rows == 0
