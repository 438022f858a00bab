"""Every rule finds the damage it is for, planted the way it comes, and nothing else does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from costhub.dataset.check.rules import RULES
from costhub.dataset.schema import VERSION_KEY, stored_schema
from costhub.dataset.shards.journal import encode_row
from costhub.dataset.shards.shard import SEAL_KEY
from costhub.dataset.trace import program_id

DEVICE = "amd-epyc-zen5-1c"
SHARD = f"measurements/{DEVICE}/train-00000-of-00001.parquet"
DEVICES = "devices/train-00000-of-00001.parquet"
WORKLOADS = "workloads/train-00000-of-00001.parquet"

NAMED = "softmax.64x1000"

Plant = Callable[[Any], None]
PLANTED: list[tuple[str, frozenset[str], Plant]] = []


def plants(*rules: str) -> Callable[[Plant], Plant]:
    """Registers a damage with all rules that find it, the one it is for first."""

    def register(plant: Plant) -> Plant:
        PLANTED.append((rules[0], frozenset(rules), plant))
        return plant

    return register


def column(damaged: Any, name: str) -> list[Any]:
    return [row[name] for row in damaged.rows()]


def of_workload(damaged: Any, name: str) -> list[int]:
    """Positions of the good rows of a workload."""
    found = damaged.find(lambda row: row["name"] == name, WORKLOADS)
    workload_id = damaged.rows(WORKLOADS)[found]["workload_id"]
    rows = damaged.rows()
    return [n for n, row in enumerate(rows) if row["workload_id"] == workload_id and row["status"] == "ok"]


def fastest(damaged: Any, name: str) -> int:
    rows = damaged.rows()
    return min(of_workload(damaged, name), key=lambda n: float(np.median(rows[n]["run_s"])))


def failed(damaged: Any) -> int:
    found: int = damaged.find(lambda row: row["status"] != "ok")
    return found


def scale(damaged: Any, positions: list[int], factor: float, **values: Any) -> None:
    rows = damaged.rows()
    for position in positions:
        rows[position].update(run_s=[s * factor for s in rows[position]["run_s"]], **values)
    damaged.write(rows)


@plants("CH001")
def cut_in_half(damaged: Any) -> None:
    path = damaged.path / SHARD
    os.truncate(path, path.stat().st_size // 2)


@plants("CH001", "CH009")  # and it is a journal that was left
def a_journal_with_a_bad_line(damaged: Any) -> None:
    (damaged.path / f"measurements/{DEVICE}/journal.jsonl").write_bytes(b'{"torn": \n{}\n')


@plants("CH002")
def a_flipped_bit_in_the_footer(damaged: Any) -> None:
    content = bytearray((damaged.path / SHARD).read_bytes())
    content[-100] ^= 4
    (damaged.path / SHARD).write_bytes(content)


@plants("CH002")
def a_page_of_zeros(damaged: Any) -> None:
    content = bytearray((damaged.path / SHARD).read_bytes())
    content[4000:4500] = bytes(500)
    (damaged.path / SHARD).write_bytes(content)


@plants("CH002")
def an_edit_that_keeps_the_seal(damaged: Any) -> None:
    table = pq.ParquetFile(damaged.path / SHARD).read()
    pq.write_table(table.slice(0, 20), damaged.path / SHARD)


@plants("CH003")
def an_edit_with_another_tool(damaged: Any) -> None:
    table = pq.ParquetFile(damaged.path / SHARD).read()
    metadata = {key: value for key, value in table.schema.metadata.items() if key != SEAL_KEY.encode()}
    pq.write_table(table.replace_schema_metadata(metadata), damaged.path / SHARD)


@plants("CH004")
def a_renamed_column(damaged: Any) -> None:
    table = pq.ParquetFile(damaged.path / SHARD).read()
    damaged.write_table(table.rename_columns({"build_s": "build_ms"}))


@plants("CH004")
def a_retyped_column(damaged: Any) -> None:
    table = pq.ParquetFile(damaged.path / SHARD).read()
    at = table.schema.get_field_index("build_s")
    damaged.write_table(table.set_column(at, "build_s", table["build_s"].cast(pa.string())))


@plants("CH004")
def a_null_where_none_may_be(damaged: Any) -> None:
    schema = stored_schema("measurements")
    schema = pa.schema([field.with_nullable(True) for field in schema], metadata=schema.metadata)
    rows = pq.ParquetFile(damaged.path / SHARD).read().to_pylist()
    rows[3]["instructions"] = None
    damaged.write_table(pa.Table.from_pylist(rows, schema=schema))


@plants("CH059")
def a_shortened_id_of_another_row(damaged: Any) -> None:
    rows = pq.ParquetFile(damaged.path / SHARD).read().to_pylist()
    rows[3]["record_id"] = "0123456789abcdef"
    damaged.write_table(pa.Table.from_pylist(rows, schema=stored_schema("measurements")))


@plants("CH004")
def a_shard_in_the_folder_of_another_table(damaged: Any) -> None:
    shutil.copy(damaged.path / WORKLOADS, damaged.path / "devices/train-00001-of-00002.parquet")
    (damaged.path / DEVICES).rename(damaged.path / "devices/train-00000-of-00002.parquet")


@plants("CH005")
def a_newer_schema(damaged: Any) -> None:
    table = pq.ParquetFile(damaged.path / SHARD).read()
    damaged.write_table(table.replace_schema_metadata(table.schema.metadata | {VERSION_KEY: b"99"}))


@plants("CH006")
def a_file_of_gigabytes(damaged: Any) -> None:
    os.truncate(damaged.path / SHARD, 3 << 30)


@plants("CH007")
def a_lost_shard(damaged: Any) -> None:
    (damaged.path / SHARD).rename(damaged.path / f"measurements/{DEVICE}/train-00000-of-00002.parquet")


@plants("CH008")
def a_half_written_shard(damaged: Any) -> None:
    (damaged.path / f"measurements/{DEVICE}/.writing-12-ab").write_bytes(b"PAR1")


@plants("CH008")
def a_file_of_something_else(damaged: Any) -> None:
    (damaged.path / f"measurements/{DEVICE}/notes.pkl").write_bytes(b"\x80")


@plants("CH009")
def an_interrupted_collection(damaged: Any) -> None:
    row = damaged.rows()[failed(damaged)] | {"record_id": "a" * 64}
    (damaged.path / f"measurements/{DEVICE}/journal.jsonl").write_bytes(encode_row(row))


@plants("CH010")
def a_record_id_twice(damaged: Any) -> None:
    damaged.change(3, record_id=damaged.rows()[4]["record_id"])


@plants("CH011")
def a_changed_trace(damaged: Any) -> None:
    damaged.change(3, trace=damaged.rows()[4]["trace"])


@plants("CH012")
def a_workload_that_is_not_described(damaged: Any) -> None:
    damaged.write(damaged.rows(WORKLOADS)[1:], WORKLOADS)


@plants("CH013")
def a_device_that_is_not_described(damaged: Any) -> None:
    (damaged.path / DEVICES).unlink()


@plants("CH014")
def a_folder_of_another_name(damaged: Any) -> None:
    (damaged.path / "measurements" / DEVICE).rename(damaged.path / "measurements/nvidia-h200")


@plants("CH015")
def a_workload_twice(damaged: Any) -> None:
    rows = damaged.rows(WORKLOADS)
    damaged.write([*rows, rows[0]], WORKLOADS)


@plants("CH016", "CH044")  # the copies follow their rows, and so go back in time
def rows_copied_under_other_names(damaged: Any) -> None:
    rows = damaged.rows()
    copies = [row | {"record_id": f"copy{n}"} for n, row in enumerate(rows) if row["status"] == "ok"]
    damaged.write([*rows, *copies[:5]])


@plants("CH017")
def a_trace_of_another_form(damaged: Any) -> None:
    trace = '[[["GetSBlock",[],["C","main"],["b0"]]],[[0,null]]]'
    damaged.change(3, trace=trace, program_id=program_id(damaged.rows()[3]["workload_id"], trace))


@plants("CH018")
def a_target_in_the_words_of_old(damaged: Any) -> None:
    damaged.change(3, target="llvm -mcpu=znver4")


@plants("CH019")
def a_target_of_a_gpu(damaged: Any) -> None:
    damaged.change(3, target='{"kind":"cuda","arch":"sm_90"}')


@plants("CH020", "CH022")
def bytes_of_the_outputs_only(damaged: Any) -> None:
    damaged.change(1, WORKLOADS, bytes=damaged.rows(WORKLOADS)[1]["bytes"] / 2)


@plants("CH021")
def a_module_that_tvm_cannot_read(damaged: Any) -> None:
    damaged.change(1, WORKLOADS, module_json="{}")


@plants("CH021", "CH022", "CH023")
def the_module_of_another_workload(damaged: Any) -> None:
    matmul, softmax = (
        damaged.find(lambda row, name=name: row["name"].startswith(name), WORKLOADS) for name in ("matmul", "softmax")
    )
    damaged.change(softmax, WORKLOADS, module_json=damaged.rows(WORKLOADS)[matmul]["module_json"])


@plants("CH022")
def twice_the_flop(damaged: Any) -> None:
    softmax = damaged.find(lambda row: row["name"].startswith("softmax"), WORKLOADS)
    damaged.change(softmax, WORKLOADS, flop=damaged.rows(WORKLOADS)[softmax]["flop"] * 2)


@plants("CH023")
def the_trace_of_another_workload(damaged: Any) -> None:
    position = fastest(damaged, "softmax.64x1000")
    trace = damaged.rows()[fastest(damaged, "matmul.512x512x512")]["trace"]
    program = program_id(damaged.rows()[position]["workload_id"], trace)
    damaged.change(position, trace=trace, program_id=program)


@plants("CH023")
def a_trace_with_other_spaces(damaged: Any) -> None:
    position = fastest(damaged, "softmax.64x1000")
    trace = damaged.rows()[position]["trace"].replace(",", ", ", 1)
    program = program_id(damaged.rows()[position]["workload_id"], trace)
    damaged.change(position, trace=trace, program_id=program)


@plants("CH024")
def a_negative_peak(damaged: Any) -> None:
    damaged.change(0, DEVICES, peak_gflops=-1.0)


@plants("CH024")
def caches_out_of_order(damaged: Any) -> None:
    damaged.change(0, DEVICES, l1d_bytes=64 << 20)


@plants("CH025")
def a_status_of_another_name(damaged: Any) -> None:
    damaged.change(failed(damaged), status="segfault")


@plants("CH026")
def a_latency_that_is_no_number(damaged: Any) -> None:
    damaged.change(fastest(damaged, "softmax.64x1000"), run_s=[1e-3, float("nan"), 1e-3])


@plants("CH026")
def a_latency_of_zero(damaged: Any) -> None:
    damaged.change(fastest(damaged, "softmax.64x1000"), run_s=[0.0, 1e-3, 1e-3])


@plants("CH027")
def a_failure_without_words(damaged: Any) -> None:
    damaged.change(failed(damaged), error=None)


@plants("CH027")
def the_latency_that_metaschedule_gives_failures(damaged: Any) -> None:
    damaged.change(failed(damaged), run_s=[1e10])


@plants("CH028")
def an_error_of_a_good_row(damaged: Any) -> None:
    damaged.change(fastest(damaged, "softmax.64x1000"), error="killed after 10 s")


@plants("CH028")
def a_repeat_too_many(damaged: Any) -> None:
    position = fastest(damaged, "softmax.64x1000")
    damaged.change(position, evaluator_repeat=len(damaged.rows()[position]["run_s"]) - 1)


@plants("CH029")
def a_wall_time_in_minutes(damaged: Any) -> None:
    position = of_workload(damaged, "matmul.512x512x512")[0]
    row = damaged.rows()[position]
    damaged.change(position, run_wall_s=sum(row["run_s"]) / 60)


@plants("CH030")
def a_matmul_twice_too_fast(damaged: Any) -> None:
    scale(damaged, [fastest(damaged, "matmul.512x512x512")], 0.5)


@plants("CH031")
def a_norm_faster_than_the_caches(damaged: Any) -> None:
    scale(damaged, [fastest(damaged, "metaschedule.nrm")], 1 / 4)


@plants("CH032", "CH029")
def milliseconds(damaged: Any) -> None:
    scale(damaged, [n for n, status in enumerate(column(damaged, "status")) if status == "ok"], 1e3)


@plants("CH032")
def microseconds_where_no_wall_time_is_known(damaged: Any) -> None:
    ok = [n for n, status in enumerate(column(damaged, "status")) if status == "ok"]
    scale(damaged, ok, 1e6, run_wall_s=None)


@plants("CH033")
def one_repeat_in_other_units(damaged: Any) -> None:
    position = fastest(damaged, "metaschedule.nrm")
    first, *others = damaged.rows()[position]["run_s"]
    damaged.change(position, run_s=[first * 1e3, *others])


@plants("CH034")
def means_instead_of_repeats(damaged: Any) -> None:
    rows = damaged.rows()
    for row in rows:
        row["run_s"] = [float(np.median(row["run_s"]))] * len(row["run_s"]) if row["run_s"] else []
    damaged.write(rows)


@plants("CH035")
def a_program_again_on_a_disturbed_machine(damaged: Any) -> None:
    rows = damaged.rows()
    row = rows[fastest(damaged, "metaschedule.nrm")]
    again = {"record_id": "again", "run_s": [s * 20 for s in row["run_s"]], "session": "another"}
    damaged.write([*rows, row | again])


@plants("CH036")
def one_latency_for_many_programs(damaged: Any) -> None:
    rows = damaged.rows()
    for position in of_workload(damaged, "softmax.64x1000"):
        rows[position]["run_s"] = [2.1234567e-5, 2.1314571e-5, 2.1554321e-5]
    damaged.write(rows)


@plants("CH036")
def a_geometric_progression(damaged: Any) -> None:
    rows = damaged.rows()
    for power, position in enumerate(of_workload(damaged, "softmax.64x1000")):
        rows[position]["run_s"] = [2.1e-5 * 1.1**power * factor for factor in (1.0, 1.0173, 1.02917)]
    damaged.write(rows)


@plants("CH036")
def typed_figures(damaged: Any) -> None:
    rows = damaged.rows()
    for row in rows:
        row["run_s"] = [float(f"{s:.2g}") * (1, 1.001, 0.999)[n] for n, s in enumerate(row["run_s"])]
    damaged.write(rows)


@plants("CH037")
def a_busy_machine(damaged: Any) -> None:
    damaged.change(3, load_average=64.0)


@plants("CH060")
def a_session_beside_other_programs(damaged: Any) -> None:
    rows = damaged.rows()
    for row in rows:
        row["run_s"] = [s * (1, 1.23)[n % 2] for n, s in enumerate(row["run_s"])]
    damaged.write(rows)


@plants("CH038")
def a_temperature_in_kelvin(damaged: Any) -> None:
    damaged.change(3, temperature_c=330.0)


@plants("CH039")
def a_clock_that_is_throttled(damaged: Any) -> None:
    rows = damaged.rows()
    for row in rows[::3]:
        row["clock_mhz"] = 800.0
    damaged.write(rows)


@plants("CH040")
def a_neighbour_that_computes(damaged: Any) -> None:
    row = damaged.rows()[3]
    baseline = row["reference_s"] / (1 + row["reference_drift"])
    damaged.change(3, reference_s=baseline * 1.9, reference_drift=0.9)


@plants("CH041")
def a_reference_of_no_time(damaged: Any) -> None:
    damaged.change(3, reference_s=0.0)


@plants("CH042")
def a_drift_of_another_session(damaged: Any) -> None:
    damaged.change(3, reference_drift=-0.25)


@plants("CH043")
def a_clock_years_ahead(damaged: Any) -> None:
    last = max(of_workload(damaged, "softmax.64x1000"))
    damaged.change(last, timestamp=datetime.now(timezone.utc) + timedelta(days=900))


@plants("CH043")
def a_clock_that_was_never_set(damaged: Any) -> None:
    damaged.change(0, timestamp=datetime(1970, 1, 1, 0, 3, tzinfo=timezone.utc))


@plants("CH044")
def rows_in_another_order(damaged: Any) -> None:
    rows = damaged.rows()
    positions = of_workload(damaged, "softmax.64x1000")
    times = [rows[position]["timestamp"] for position in positions]
    for position, time in zip(positions, reversed(times), strict=True):
        rows[position]["timestamp"] = time
    damaged.write(rows)


@plants("CH045")
def a_log_for_an_error_text(damaged: Any) -> None:
    damaged.change(failed(damaged), error="line of a log\n" * 5000)


@plants("CH045")
def thousands_of_repeats(damaged: Any) -> None:
    rng = np.random.default_rng(0)
    run_s = (1e-5 + 1e-7 * rng.random(20_000)).tolist()
    damaged.change(fastest(damaged, "softmax.64x1000"), run_s=run_s, evaluator_repeat=20_000, run_wall_s=None)


@plants("CH046")
def an_error_text_in_colours(damaged: Any) -> None:
    damaged.change(failed(damaged), error="\x1b[31mtoo many registers\x1b[0m")


@plants("CH047")
def nobody_proposed_it(damaged: Any) -> None:
    damaged.change(3, proposed_by="")


@plants("CH048")
def no_licence(damaged: Any) -> None:
    rows = damaged.rows()
    damaged.write([row | {"licence": None} for row in rows])


@plants("CH048")
def a_licence_that_no_hub_knows(damaged: Any) -> None:
    damaged.change(3, licence="CC BY 4.0")


@plants("CH049")
def a_newer_costhub(damaged: Any) -> None:
    damaged.change(3, costhub_version="99.0.0")


@plants("CH050")
def a_home_folder_in_an_error(damaged: Any) -> None:
    damaged.change(failed(damaged), error="OSError: [Errno 28] /home/ada/runs/7/main.so")


@plants("CH050")
def a_contributor_with_an_address(damaged: Any) -> None:
    damaged.change(3, contributor="Ada Lovelace <ada@example.org>")


@plants("CH051")
def the_name_of_a_machine(damaged: Any) -> None:
    damaged.change(0, DEVICES, driver="Linux 6.1 node-17.lab.internal")


@plants("CH052")
def a_novel_for_a_vendor(damaged: Any) -> None:
    damaged.change(0, DEVICES, vendor="A" * 3000)


@plants("CH053")
def a_pipe_for_a_journal(damaged: Any) -> None:
    os.mkfifo(damaged.path / f"measurements/{DEVICE}/journal.jsonl")


@plants("CH053")
def a_pipe_for_a_split(damaged: Any) -> None:
    (damaged.path / "splits").mkdir(exist_ok=True)
    os.mkfifo(damaged.path / "splits/a.json")


@plants("CH006", "CH009")
def a_journal_of_a_terabyte(damaged: Any) -> None:
    with (damaged.path / f"measurements/{DEVICE}/journal.jsonl").open("wb") as file:
        file.truncate(1 << 40)


@plants("CH054")
def a_shard_that_lies_elsewhere(damaged: Any) -> None:
    shutil.move(damaged.path / SHARD, damaged.path.parent / "elsewhere")
    (damaged.path / SHARD).symlink_to(damaged.path.parent / "elsewhere")


@plants("CH055")
def features_of_somebody(damaged: Any) -> None:
    (damaged.path / "features/tiles@1").mkdir(parents=True)


@plants("CH056")
def two_workloads_by_one_name(damaged: Any) -> None:
    [taken, own] = (damaged.find(lambda row, n=n: row["name"] == n, WORKLOADS) for n in ("metaschedule.nrm", NAMED))
    damaged.change(own, WORKLOADS, name=damaged.rows(WORKLOADS)[taken]["name"].upper())


@plants("CH056")
def two_splits_by_one_name(damaged: Any) -> None:
    (damaged.path / "splits").mkdir(exist_ok=True)
    for name in ("a", "A"):
        (damaged.path / f"splits/{name}.json").write_text("{}")


@plants("CH061")
def a_document_of_other_shards(damaged: Any) -> None:
    (damaged.path / "croissant.json").write_text('{"distribution": []}')


@plants("CH057")
def a_session_in_colours(damaged: Any) -> None:
    damaged.change(3, session="\x1b]0;a title\x07")


@plants("CH058")
def an_alias_from_right_to_left(damaged: Any) -> None:
    damaged.change(0, DEVICES, aliases=["\u202ecod.exe"])


@plants("CH058")
def a_workload_that_clears_the_screen(damaged: Any) -> None:
    damaged.change(0, WORKLOADS, name="\x1b[2J")


def test_the_clean_folder_is_clean(damaged: Any) -> None:
    assert damaged.findings(deep=True) == []


@pytest.mark.parametrize(("rule", "rules", "plant"), PLANTED, ids=[f"{p[0]}-{p[2].__name__}" for p in PLANTED])
def test_damage_is_found_by_its_rule_and_no_other(damaged: Any, rule: str, rules: frozenset[str], plant: Plant) -> None:
    plant(damaged)

    # The deep rules take seconds, and only what was planted in modules and traces concerns them.
    found = damaged.findings(deep=rule in {"CH020", "CH021", "CH022", "CH023"})

    assert {finding.rule for finding in found} == rules
    [first, *_] = [finding for finding in found if finding.rule == rule]
    assert first.message.endswith((".", "?"))
    assert (first.fix, first.severity) == (RULES[rule].fix, RULES[rule].severity)


def test_damage_is_planted_for_every_rule() -> None:
    assert {rule for rule, _, _ in PLANTED} == set(RULES)
