"""What the benchmark of models is run on: the data and splits that its options name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from costhub.dataset.folder import DataFolder
from costhub.dataset.splits.split import load_split
from costhub.errors import CosthubError
from scripts.bench.__main__ import commands
from scripts.bench.common.data import DATASETS
from scripts.bench.models import compare
from scripts.bench.models.compare import entries_of, plan, sources_of
from scripts.bench.models.grid import RANDOM, GridEntry
from scripts.bench.models.runs import key_of, run
from scripts.release.train import AMD, EMERALD, INTEL, MANY, ZEN3, ZEN4, dataset

H200 = DATASETS / "nvidia-h200"


@pytest.mark.parametrize("name", ["nvidia-h200", "costhub/nvidia-h200", str(H200)])
def test_data_are_a_folder_a_dataset_or_a_device(name: str) -> None:
    [source] = sources_of([name], (), None)

    assert (source.data, source.device) == (H200, "nvidia-h200")


def test_a_device_of_a_dataset_of_several_is_that_device_only() -> None:
    assert [source.device for source in sources_of(["amd-epyc-zen5-2c"], (), None)] == ["amd-epyc-zen5-2c"]


def test_devices_select_those_of_the_data() -> None:
    sources = sources_of(["costhub/intel-xeon-graniterapids"], ("intel-xeon-graniterapids-1c",), None)

    assert [source.device for source in sources] == ["intel-xeon-graniterapids-1c"]


def test_a_device_that_the_data_lack_is_refused() -> None:
    with pytest.raises(
        CosthubError, match=r"nvidia-h200 has no measurements of nvidia-a100\. It has those of nvidia-h200"
    ):
        sources_of(["nvidia-h200"], ("nvidia-a100",), None)


def test_a_split_file_of_a_fold_is_that_fold() -> None:
    [source] = sources_of(["nvidia-h200"], (), None)

    [part] = source.parts(["fold-5-seed0-2"], seed=0)

    assert part.test == set(load_split(H200, "fold-5-seed0-2").test)
    assert part.test == list(source.parts(["fold-5"], seed=0))[1].test


@pytest.mark.parametrize(
    "wrong",
    [
        ("--data", "nowhere/"),
        ("--data", "nvidia-h200", "--split", "fold-6-seed0-1"),
        ("--data", "nvidia-h200", "--split", "validation-4"),  # it has no split with the tested workloads
        ("--data", "amd-epyc-zen5-2c", "--split", "validation-500"),
        ("--data", "tests"),
    ],
)
def test_a_wrong_name_is_a_sentence(wrong: tuple[str, ...]) -> None:
    done = CliRunner().invoke(commands, ["models", *wrong, "--only", "random*"])

    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert "Traceback" not in done.output


@pytest.mark.parametrize("only", ["gbt/log/tiles@1/", "gbt/log/tiles@1/*", "gbt/log/tile"])
def test_a_pattern_that_fits_no_model_is_refused_with_those_near_it(only: str) -> None:
    done = CliRunner().invoke(commands, ["models", "--data", "nvidia-h200", "--only", only])

    assert done.exit_code == 1
    assert "Did you mean gbt/log/tiles@1" in done.output


def test_a_pattern_chooses_lines_of_the_grid() -> None:
    assert [entry.label for entry in entries_of("comparison", "gbt/log/tiles@1")] == ["gbt/log/tiles@1"]
    assert {entry.model for entry in entries_of("comparison", "TVM*")} == {"TVM recipe"}


def test_a_capped_comparison_learns_from_some_programs_and_tests_on_all() -> None:
    [source], [whole] = (sources_of(["nvidia-h200"], (), None, each) for each in (8, None))
    [part] = source.parts(["workload-12-seed0"], seed=0)
    entry = GridEntry("gbt", "trace_decisions@1", "log")

    train, test = source.sides(part, entry, seed=0)
    again, _ = source.sides(part, entry, seed=1)

    assert np.bincount(train.group).max() == 8
    assert np.array_equal(train.rows, again.rows)
    assert train.n < whole.sides(part, entry, seed=0)[0].n
    assert test.n == whole.sides(part, entry, seed=0)[1].n
    assert key_of(source, part, entry, 0)["variant"] == "8 of each workload"
    assert key_of(whole, part, entry, 0)["variant"] == ""


def test_random_order_ranks_all_measured_programs() -> None:
    [source] = sources_of(["nvidia-h200"], (), None, 8)
    [part] = source.parts(["workload-12-seed0"], seed=0)

    row = run(source, part, GridEntry(RANDOM), 0)

    assert (row["pairwise"], row["variant"], row["spec"]) == (0.5, "", "")
    assert row["test_programs"] == source.measured(part).programs.n


def test_numbers_of_workloads_that_a_split_has_not_are_left_out() -> None:
    def learned(name: str) -> list[int | None]:
        [source] = sources_of([name], (), None)
        tasks = plan([source], entries_of("learning", "gbt/*/workloads *"), ("workload-40-seed0",), 1)
        return [entry.workloads for _, _, entry, _ in tasks]

    assert learned("amd-epyc-zen5-2c") == [2, 4, 8, 16, 32, 64, 128]
    assert learned("intel-xeon-emeraldrapids-1c") == [2, 4, 8, 16, 32, 64, 128, 256, 512]


@pytest.mark.slow
def test_joined_data_hold_out_what_any_dataset_holds_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def two_datasets(name: str, folder: str) -> Path:
        asked.append(name)
        return dataset(f"{ZEN4}+{EMERALD}", folder)

    monkeypatch.setattr(compare, "dataset", two_datasets)

    data = compare.joined_copy()

    many, blocked = (load_split(data, name) for name in (MANY, compare.BLOCKED))
    assert (asked, data.name) == (["+".join((AMD, INTEL, ZEN4, ZEN3, EMERALD))], "any-cpu")
    devices = [f"{chip}-{cores}" for chip in (ZEN4, EMERALD) for cores in ("1c", "2c")]
    assert DataFolder.open(data).device_ids() == devices
    assert blocked.test == load_split(DATASETS / EMERALD, compare.BLOCKED).test
    assert many.train == blocked.train == load_split(DATASETS / EMERALD, MANY).train
    assert not {*many.train} & {*many.test, *blocked.test}
