"""The benchmark of what recipes of shipped models give: what is trained and ranked, what is kept, and what it says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from costhub.dataset.folder import DataFolder
from costhub.dataset.splits.split import list_splits, load_split
from costhub.hub.catalogue.hubs import EMBEDDED
from costhub.models.compound.blend import BlendOptions
from costhub.models.trees.gbt import GbtOptions
from scripts.bench.ceilings import shipped
from scripts.bench.ceilings.shipped import (
    KEY,
    METRICS,
    QUICK,
    RATES,
    SHIPPED,
    VARIANTS,
    held_out_programs,
    joined,
    main,
    over_devices,
    places,
    quick_form,
    ranked_devices,
    result_of,
    small_data,
    summary,
    training_summary,
    varied,
)
from scripts.bench.common.data import BLOCKED, DATASETS, PAIRS
from scripts.release.train import CPUS, EMERALD, GPUS, INTEL, MANY, RELEASES, ModelRelease
from scripts.tables.release import shipped_table

MORE = "400 trees at 0.05"
MODEL = "any-cpu-conditioned"


def release_of(device: str, arch: str | None = None) -> ModelRelease:
    return next(each for each in RELEASES if each.device == device and arch in (None, each.arch))


def row(seed: int, device: str, value: float, *, variant: str = SHIPPED, error: float | None = 0.02) -> dict[str, Any]:
    """All metrics have the same value."""
    figures = {name: value for name in METRICS} | {f"{name}_se": error for name in METRICS}
    about = {"model": MODEL, "variant": variant, "seed": seed}
    return {**about, "split": MANY, "device": device, "workloads": 40, **figures}


def training(seed: int, seconds: float, *, variant: str = SHIPPED) -> dict[str, Any]:
    learned = {"options": "base=blend", "train_programs": 1000, "train_workloads": 50, "threads": 2}
    about = {"model": MODEL, "variant": variant, "seed": seed}
    return {**about, **learned, **dict.fromkeys(RATES, 10.0), "train_s": seconds, "bytes": 4_000_000}


def test_a_variant_changes_the_trees_and_nothing_else() -> None:
    release = release_of("any-cpu")
    more = varied(release, MORE)

    assert varied(release, SHIPPED) == release
    assert release.options == ("base=blend", "members=gbt(objective=log,rounds=200,learning_rate=0.1) mlp")
    assert more.options == ("base=blend", "members=gbt(objective=log,rounds=400,learning_rate=0.05) mlp")
    assert (more.dataset, more.devices, more.split) == (release.dataset, release.devices, release.split)
    # The variant is what trees are that nobody says anything of.
    assert f"{GbtOptions().rounds} trees at {GbtOptions().learning_rate}" == MORE


def test_more_members_stand_behind_those_that_are_shipped() -> None:
    release = release_of("any-cpu")
    shipped = release.options[1]
    ranked = "gbt(rounds=200,learning_rate=0.1,objective=rank)"

    assert varied(release, "with trees that rank").options[1] == f"{shipped} {ranked}"
    assert varied(release, "four members").options[1] == f"{shipped} {ranked} mlp(objective=rank)"
    for variant in ("with trees that rank", "four members"):
        members = varied(release, variant).options[1].removeprefix("members=")
        assert len(BlendOptions(members=members).parsed()) == {"with trees that rank": 3, "four members": 4}[variant]


def test_a_recipe_without_what_a_variant_changes_is_refused() -> None:
    with pytest.raises(click.ClickException, match="amd-epyc-zen5-2c-mlp has no rounds=200"):
        varied(release_of("amd-epyc-zen5-2c", "mlp"), MORE)


@pytest.mark.parametrize(
    ("device", "ranked"), [("any-cpu", CPUS), ("any-gpu", GPUS), ("nvidia-h200", ("nvidia-h200",))]
)
def test_models_rank_for_the_devices_that_their_cards_are_about(device: str, ranked: tuple[str, ...]) -> None:
    assert ranked_devices(release_of(device)) == ranked


def test_a_model_of_one_device_ranks_for_it() -> None:
    assert ranked_devices(release_of("nvidia-v100")) == ("nvidia-v100",)


def test_kernels_in_blocked_layouts_are_ranked_on_the_devices_that_have_some() -> None:
    data = Path("joined")

    assert list(places(release_of("any-cpu"), data)) == [
        (MANY, data, list(CPUS)),
        *((BLOCKED, DATASETS / chip, [f"{chip}-1c", f"{chip}-2c"]) for chip in (INTEL, EMERALD)),
    ]
    assert list(places(release_of("nvidia-v100"), data)) == [("workload-12-seed0", data, ["nvidia-v100"])]


@pytest.mark.parametrize(("chip", "split", "count"), [(EMERALD, BLOCKED, 40), (INTEL, BLOCKED, 28), (INTEL, PAIRS, 40)])
def test_no_recipe_for_cpus_learns_from_a_ranked_kernel(chip: str, split: str, count: int) -> None:
    ranked = set(load_split(DATASETS / chip, split).test)

    assert len(ranked) == count
    for name in release_of("any-cpu").dataset.split("+"):
        for taught in {MANY, BLOCKED} & set(list_splits(DATASETS / name)):
            assert not ranked & set(load_split(DATASETS / name, taught).train), (name, taught)


def test_all_models_of_a_device_learn_from_the_same_data() -> None:
    for device in {each.device for each in RELEASES}:
        assert len({each.dataset for each in RELEASES if each.device == device}) == 1, device


def test_data_are_joined_once_where_they_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def made(name: str, folder: str) -> Path:
        asked.append(name)
        place = Path(folder, name, "first")
        place.mkdir(parents=True)
        (place / "rows").write_text(name)
        return place

    monkeypatch.setattr(shipped, "dataset", made)
    kept, scratch = tmp_path / "kept" / "joined", tmp_path / "scratch"

    assert joined("a+b", kept, str(scratch)) == joined("a+b", kept, str(scratch)) == kept
    assert asked == ["a+b"]
    assert (kept / "rows").read_text() == "a+b"
    assert [path.name for path in kept.parent.iterdir()] == ["joined"]
    assert not scratch.exists()
    assert joined("a+b", None, str(scratch)) == scratch / "a+b" / "first"


def test_data_whose_joining_was_interrupted_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str, folder: str) -> Path:
        Path(folder, name).mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(shipped, "dataset", interrupted)

    with pytest.raises(KeyboardInterrupt):
        joined("a", tmp_path / "joined", str(tmp_path / "scratch"))

    assert list(tmp_path.iterdir()) == []


def test_data_that_were_joined_for_another_recipe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        click.ClickException, match=r"has no measurements of amd-mi50, .*from which any-gpu-conditioned"
    ):
        list(held_out_programs(release_of("any-gpu"), small_data(tmp_path)))


def test_the_quick_form_has_a_workload_on_each_side_and_few_trees(tmp_path: Path) -> None:
    data, release = small_data(tmp_path), quick_form(release_of("any-cpu"))
    split = load_split(data, release.split)

    assert list(release.devices) == DataFolder.open(data).device_ids()
    assert [len(side) for side in (split.train, split.test)] == [1, 1]
    assert split.train != split.test
    assert "rounds=8," in release.options[1]


def test_spread_is_over_seeds_and_the_error_over_workloads_is_their_mean() -> None:
    rows = [row(0, "a", 0.8, error=0.02), row(1, "a", 0.9, error=0.04), row(0, "b", 0.5, error=None)]

    a, b = summary(rows)

    assert (a["device"], a["seeds"], a["workloads"]) == ("a", 2, 40)
    assert (a["top_1"], a["top_1_std"], a["top_1_se"]) == pytest.approx((0.85, 0.1 / 2**0.5, 0.03))
    assert (b["device"], b["top_5"], b["top_5_std"], b["top_5_se"]) == ("b", 0.5, None, None)


def test_the_spread_of_a_mean_over_devices_is_that_of_the_means_of_seeds() -> None:
    # What one device gains by a seed, the other one loses.
    rows = [row(0, "a", 0.8), row(1, "a", 0.9), row(0, "b", 0.6), row(1, "b", 0.5)]

    (found,) = over_devices(rows)

    assert (found["devices"], found["seeds"]) == (2, 2)
    assert (found["pairwise"], found["pairwise_std"]) == pytest.approx((0.7, 0.0))
    assert (found["pairwise_lowest"], found["pairwise_highest"]) == pytest.approx((0.55, 0.85))


def test_splits_and_variants_are_summed_up_apart() -> None:
    rows = [row(0, "a", 0.8), row(0, "a", 0.9, variant=MORE), row(0, "a", 0.7) | {"split": BLOCKED}]

    for found in (summary(rows), over_devices(rows)):
        assert [(line["variant"], line["split"], line["top_1"]) for line in found] == [
            (SHIPPED, MANY, 0.8),
            (MORE, MANY, 0.9),
            (SHIPPED, BLOCKED, 0.7),
        ]


def test_trainings_are_summed_up_with_the_longest() -> None:
    (found,) = training_summary([training(0, 100.0), training(1, 300.0)])

    assert (found["seeds"], found["train_s"], found["train_s_highest"]) == (2, 200.0, 300.0)
    assert (found["train_programs"], found["threads"], found["predictions_per_s"]) == (1000, 2, 10.0)


def test_a_result_has_the_rows_that_were_asked_for_alone() -> None:
    kept = [row(0, "a", 0.8), training(0, 1.0), row(1, "a", 0.6), training(1, 3.0)]
    kept += [row(0, "a", 0.1, variant=MORE), training(0, 9.0, variant=MORE)]

    found = result_of(kept, {(MODEL, SHIPPED)}, seeds=1)

    assert (found["rows"], found["training"]) == (kept[:1], kept[1:2])
    assert [line["top_1"] for line in found["summary"]] == [0.8]
    assert [line["train_s"] for line in found["training_summary"]] == [1.0]
    assert [line["seeds"] for line in result_of(kept, {(MODEL, SHIPPED)}, seeds=2)["over_devices"]] == [2]


def run_main(monkeypatch: pytest.MonkeyPatch, words: Sequence[str], fails_at: int = -1) -> list[tuple[str, int]]:
    """The variants and seeds that were trained; the training of the seed `fails_at` is interrupted."""
    trained: list[tuple[str, int]] = []

    def measured(_: ModelRelease, about: dict[str, Any], *__: Any) -> Any:
        if about["seed"] == fails_at:
            raise KeyboardInterrupt
        trained.append((about["variant"], about["seed"]))
        of_seed = {"variant": about["variant"], "seed": about["seed"]}
        return [row(device="a", value=0.8, **of_seed)], training(seconds=1.0, **of_seed)

    monkeypatch.setattr(shipped, "measured", measured)
    monkeypatch.setattr(shipped, "held_out_programs", lambda *_: [SimpleNamespace()])
    monkeypatch.setattr(shipped, "joined", lambda *_: Path("joined"))
    done = CliRunner().invoke(main, words)

    assert done.exit_code == int(fails_at >= 0), done.output
    return trained


def test_an_interrupted_run_trains_only_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out.json"
    words = ["--rows", str(rows), "--json", str(out)]

    assert run_main(monkeypatch, words, fails_at=2) == [(SHIPPED, 0), (SHIPPED, 1)]
    assert not out.exists()
    assert run_main(monkeypatch, words) == [(SHIPPED, 2)]
    assert [line["seed"] for line in json.loads(out.read_text())["rows"]] == [0, 1, 2]
    assert run_main(monkeypatch, [*words, "--variant", SHIPPED, "--variant", MORE, "--seeds", "1"]) == [(MORE, 0)]
    assert [line["variant"] for line in json.loads(out.read_text())["training"]] == [SHIPPED, MORE]
    assert run_main(monkeypatch, words) == []


def test_rows_that_were_cut_off_before_their_training_are_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out.json"
    rows.write_text(json.dumps(row(0, "a", 0.8)) + "\n")

    assert run_main(monkeypatch, ["--seeds", "1", "--rows", str(rows), "--json", str(out)]) == [(SHIPPED, 0)]
    assert len(json.loads(out.read_text())["rows"]) == 1


def test_an_architecture_that_a_device_lacks_is_a_sentence() -> None:
    done = CliRunner().invoke(main, ["--device", "nvidia-v100", "--arch", "mlp"])

    assert done.exit_code == 2
    assert "The architectures of nvidia-v100 are blend; --arch names none of them." in done.output


@pytest.mark.slow  # trains, and starts processes that compute features
def test_the_quick_form_trains_ranks_and_installs_nothing(tmp_path: Path) -> None:
    path, rows_path = tmp_path / "out.json", tmp_path / "rows.jsonl"
    models = {file: file.stat().st_mtime_ns for file in (EMBEDDED / "models").rglob("*")}

    done = CliRunner().invoke(main, ["--quick", "--rows", str(rows_path), "--json", str(path)], catch_exceptions=False)

    assert done.exit_code == 0, done.output
    found = json.loads(path.read_text())
    (figures,), (cost,) = found["rows"], found["training"]
    assert (figures["variant"], figures["device"], figures["workloads"]) == (QUICK, "amd-epyc-zen5-1c", 1)
    assert all(0.0 <= figures[name] <= 1.0 for name in METRICS)
    assert cost["train_workloads"] == 1
    assert 2 <= cost["train_programs"] <= 24
    assert "rounds=8" in cost["options"]
    assert min(cost[name] for name in RATES) > 0
    assert MODEL in shipped_table(found)
    assert {file: file.stat().st_mtime_ns for file in (EMBEDDED / "models").rglob("*")} == models
    assert [{key: json.loads(line).get(key) for key in KEY} for line in rows_path.read_text().splitlines()] == [
        {key: each.get(key) for key in KEY} for each in (figures, cost)
    ]


def test_the_first_variant_is_the_recipe_itself() -> None:
    assert next(iter(VARIANTS.items())) == (SHIPPED, {})
