"""Tables of data and of the hub show the figures of their files."""

from __future__ import annotations

from scripts.tables.data import (
    DATA_TABLES,
    agreement_table,
    cuts_table,
    dataset_table,
    features_table,
    pull_table,
    rows_table,
)


def test_stages_show_how_they_grow() -> None:
    rows = [
        {"stage": "check", "rows": n, "seconds": s, "peak_gib": g}
        for n, s, g in ((10_000, 0.5, 0.25), (1_000_000, 50.0, 1.5))
    ]
    real = {"stage": "shards", "rows": 10_000, "seconds": 0.1, "found": 8169, "bytes_per_row": 190.0}

    shown = dataset_table({"rows": [*rows, real]})

    assert "| 0.5 | 50 | 1.00 | 1.50 |" in shown
    assert "| 8,169 | 190 | 0.10 |" in shown


def test_a_row_is_shown_by_device_and_by_column() -> None:
    device = {"device": "cpu0", "rows": 1234, "before": {"trace": 90.0, "a": 0.01}, "after": {"decisions": 10.0}}
    columns = [{"column": "trace", "before": 90.0, "after": 0.0}, {"column": "a", "before": 0.01, "after": 0.0}]
    results = [
        {"what": "write", "before_s": 1.5, "after_s": 2.25},
        {"what": "bytes a row", "before": 9.0, "after": 1.0},
    ]

    scale = {"rows": 100_000, "results": results}
    shown = rows_table({"devices": [device], "columns": columns, "scale": scale})

    assert "| cpu0 | 1,234 | 90.0 | 10.0 |" in shown
    assert "| trace | 90.0 | 0.0 |" in shown
    assert "| write | 1.50 | 2.25 |" in shown
    assert "| a |" not in shown


def test_features_are_shown_beside_the_loop_and_the_cache_beside_pyarrow() -> None:
    row = {"spec": "tiles@1", "per_s": 1234.4, "ratio_to_loop": 2.5}

    shown = features_table({"features": [row], "cache": {"gb_per_s": 1.5, "pyarrow_gb_per_s": 2.0}})

    assert "| tiles@1 | 1,234 | 2.50 |" in shown
    assert shown.endswith("1.50 GB/s; bare pyarrow on the same files: 2.00.")


def test_what_was_cut_and_what_became_of_it_is_counted() -> None:
    row = {"command": "pull", "cut": 3, "away": 1, "kill": 2, "first_done": 2, "arrived": 1, "again_done": 6}
    ends = {"identical": 6, "half": 0, "lost": 1, "doubled": 2, "no_sentence": 3, "left": 4}

    shown = cuts_table({"rows": [{**row, **ends}, {**row, **ends, "command": "publish"}]})

    assert "| pull | 3 | 1 | 2 | 2 | 1 | 6 | 6 |" in shown
    assert shown.endswith(
        "0 half files under a final name, 2 versions lost on the server, 4 pull requests opened twice, "
        "6 failures without a sentence, 8 temporary folders left by killed clients."
    )


def test_seconds_to_scores_have_their_stages() -> None:
    line = {"way": "the package", "seconds": 2.5, "range": 3.0, "pull": 0.1, "load": 1.5, "score": 0.05}

    shown = pull_table({"summary": [line], "rows": [line] * 5, "programs": 112, "scored": "gpu"})

    assert "| the package | 2.50 | 3.00 | 0.10 | 1.50 | 0.05 |" in shown
    assert "Medians of 5 new processes with empty caches; 112 programs of gpu" in shown


def test_old_databases_are_listed_with_what_was_refused() -> None:
    row = {"origin": "a/b", "tvm": "0.16", "form": "JSON", "workloads": 2, "ok": 1200, "failed": 3, "duplicates": 0}

    shown = DATA_TABLES["old_databases"]({"rows": [{**row, "refused": 4, "reasons": {"it is blank.": 4}}]})

    assert "| a/b | - | 0.16 | JSON | 2 | 1,200 | 3 | 0 | 4 |" in shown
    assert shown.endswith("- a/b, 4 refused: it is blank.")


def test_old_databases_have_the_licence_of_the_catalogue() -> None:
    row = {"tvm": "0.16", "form": "JSON", "workloads": 2, "ok": 1, "failed": 0, "duplicates": 0, "refused": 0}
    rows = [{**row, "origin": origin, "reasons": {}} for origin in ("lac-dcc/bennu", "mlc-ai/web-llm")]

    shown = DATA_TABLES["old_databases"]({"rows": rows})

    assert "| lac-dcc/bennu | MIT | 0.16 |" in shown
    assert "| mlc-ai/web-llm | Apache-2.0 | 0.16 |" in shown


def test_devices_that_share_no_program_are_shown_too_and_parts_of_a_chip_are_not() -> None:
    figures = {"shared": 12, "workloads": 2, "programs": 9, "pairwise": 0.75, "top_1": 0.9}
    nothing = {"shared": 0, "workloads": 0, "programs": 0, "pairwise": None, "top_1": None}
    rows = [
        {"measured": "native", "one": "a-2c", "other": "b-2c", **figures},
        {"measured": "native", "one": "a-2c", "other": "b-1c", **figures},
        {"measured": "native x transplanted", "one": "c", "other": "d", **nothing},
    ]

    *_, both, none = agreement_table({"rows": rows}).splitlines()

    assert both == "| native | a-2c | b-2c | 12 | 2 | 9 | 0.750 | 0.900 |"
    assert none == "| native x transplanted | c | d | 0 | 0 | 0 | - | - |"
    assert "b-1c" not in agreement_table({"rows": rows})


def test_lost_workloads_are_summed_over_operators() -> None:
    row = {"operator": "conv", "workloads": 2, "kept": 1, "records": 9, "traces": 8, "same": 7}
    left = [{"name": "take", "records": 4, "why": "no reason"}]
    result = {"operators": [row, {**row, "operator": "pool"}], "left_out": left, "templates_alike": 5}

    shown = DATA_TABLES["lost_workloads"]({**result, "templates_other": 0})

    assert "| all | 4 | 2 | 18 | 16 | 14 |" in shown
    assert "- left out: `take`, 4 records: no reason." in shown
    assert shown.endswith("5 modules of other networks letter for letter, and 0 otherwise.")


def test_damages_are_counted_by_database_and_by_kind() -> None:
    folder = {"folder": "db", "kind": "llvm", "tvm_versions": ["0.16"], "workloads": 2, "lines": 1200, "taken": 1000}
    row = {"folder": "db", "damage": "cut", "expected": 1, "missed": [], "lost": 0, "left": 0, "loads": True}
    rows = [
        {**row, "harmless": False, "false_alarms": [], "stock": "crashes"},
        {**row, "harmless": False, "false_alarms": ["DB05 x"], "damage": "copied", "missed": ["DB10 x"], "stock": 1001},
        {**row, "harmless": True, "false_alarms": [], "damage": "line ends", "lost": 3},
        {**row, "harmless": False, "false_alarms": [], "damage": "all", "expected": 9, "missed": ["DB10 y"], "left": 2},
    ]

    shown = DATA_TABLES["doctor"]({"folders": [{**folder, "good": 990, "seconds": 12.34}], "rows": rows})

    assert "| db | llvm | 0.16 | 2 | the first 1,000 of 1,200 | 990 | 1 of 2 | 8 of 9 | 3 | 2 | 12.3 |" in shown
    assert "| cut | 1 of 1 | 0 | crashes 1 |" in shown
    assert "| copied | 0 of 1 | 0 | loads 1 |" in shown
    assert "| line ends | - | 3 | - |" in shown
    assert "TVM loads every record of 4 of 4 clean copies; false alarms: 1." in shown


def test_coverage_and_merges_have_tables_of_their_own() -> None:
    covered = {"what": "as it was", "kernels": 9, "tuned": 8, "flop_share": 0.9, "trials": 50, "foreign": 16}
    merged = {"what": "two", "folders": 2, "records": 18, "joined": 12, "duplicates": 6, "lost": 0, "loads": True}
    result = {
        "folders": [],
        "rows": [],
        "coverage": [
            {**covered, "seconds": 3.21, "wrong": []},
            {**covered, "seconds": 3.21, "wrong": ["tuned is 8, not 9"]},
        ],
        "merges": [
            {**merged, "refused": ""},
            {**merged, "joined": 0, "loads": None, "refused": "There are records for 2 targets: {} in a; {} in b."},
        ],
    }

    shown = DATA_TABLES["doctor"](result)

    assert "| as it was | 8 of 9 | 90.0% | 16 of 50 | yes | 3.2 |" in shown
    assert "| as it was | 8 of 9 | 90.0% | 16 of 50 | tuned is 8, not 9 | 3.2 |" in shown
    assert "| two | 2 | 18 | 12 | 6 | 0 | TVM loads every record |" in shown
    assert "| two | 2 | 18 | 0 | 6 | 0 | refused: There are records for 2 targets |" in shown


def test_documents_are_listed_with_who_read_them_and_what_the_server_said() -> None:
    dataset = {"dataset": "d", "errors": [], "warnings": ["w"], "record_sets": ["a", "b"], "read": ["a"]}
    card = {"card": "d", "kind": "dataset", "error": "", "results": None, "answer": "accepted", "why": ""}
    model = {"card": "m", "kind": "model", "error": "", "results": 4, "wrong": ["top_1"]}
    result = {
        "mlcroissant": "1.2",
        "huggingface_hub": "3.4",
        "is_own_server": True,
        "datasets": [dataset],
        "cards": [
            card,
            {**model, "answer": "unreachable", "why": "ConnectError"},
            {**model, "card": "n", "answer": "refused", "why": "No."},
            {**model, "card": "o", "error": "YAML", "results": None, "wrong": [], "answer": None, "why": ""},
        ],
    }

    shown = DATA_TABLES["conventions"](result)

    assert "| d | 0 | 1 | 1 of 2 | read | accepted |" in shown
    assert "| m | read | 3 of 4 | unreachable |" in shown
    assert "| o | refused | - | - |" in shown
    assert shown.endswith(
        "Read by mlcroissant 1.2 and huggingface_hub 3.4. `RepoCard.validate()` asks a server: the hub's server "
        "accepted 1 of 4 cards and refused 1; it could not be reached for 1 (ConnectError)."
    )
    alone = {**result, "datasets": [], "cards": result["cards"][1:2]}
    assert DATA_TABLES["conventions"](alone).endswith(
        "the hub's server could not be reached from here (ConnectError), so it has not judged the 1 cards."
    )
    assert "a server other than the hub's own accepted" in DATA_TABLES["conventions"](
        {**result, "is_own_server": False}
    )
