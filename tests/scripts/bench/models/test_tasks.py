"""What the benchmarks of models learn from: equal shares of all devices, nested, and nothing that is held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.dataset.splits.split import load_split
from scripts.bench.common.data import DATASETS, SplitPart
from scripts.bench.models.grid import LEARNING_JOINT, GridEntry
from scripts.bench.models.tasks import DeviceData, thinned_evenly
from scripts.release.train import ANY_DEVICE, MANY

POOLS = {"a": 16, "b": 32, "c": 71}
"""Device -> programs of a workload."""
WORKLOADS = [f"w{number:02}" for number in range(24)]
SHARES = [1 / 2**k for k in range(7)]
ENTRY = GridEntry("conditioned", joint=True)


def made(sizes: Mapping[str, Mapping[str, int]], *, first: int = 0) -> Programs:
    """Programs of these devices and workloads, whose latencies are numbers from `first` on that tell them apart."""
    places = [(device, name) for device, own in sizes.items() for name, count in own.items() for _ in range(count)]
    devices, names = tuple(sizes), tuple(dict.fromkeys(name for _, name in places))
    plain = Programs.from_list(
        [np.ones((1, 2))] * len(places),
        np.array([names.index(name) for _, name in places]),
        names,
        np.arange(first + 1.0, first + 1.0 + len(places)),
    )
    return replace(plain, device=np.array([devices.index(device) for device, _ in places]), device_ids=devices)


ALL = made({device: dict.fromkeys(WORKLOADS, size) for device, size in POOLS.items()})
SOME = {
    "a": dict.fromkeys([f"all{number:02}" for number in range(40)], 3),
    "b": dict.fromkeys([f"all{number:02}" for number in range(40)] + [f"two{number}" for number in range(8)], 3),
    "c": dict.fromkeys(
        [f"all{number:02}" for number in range(40)]
        + [f"two{number}" for number in range(8)]
        + [f"one{number:02}" for number in range(24)],
        3,
    ),
}
"""Device -> its workloads; most were measured on one or two devices only, as those in blocked layouts."""


def of(kind: str, share: float) -> GridEntry:
    return replace(ENTRY, share=share) if kind == "programs" else replace(ENTRY, workload_share=share)


def workloads_of(programs: Programs) -> set[str]:
    return {programs.workload_ids[number] for number in np.unique(programs.workload)}


@pytest.mark.parametrize("share", SHARES)
def test_every_device_gives_the_same_share_of_its_programs(share: float) -> None:
    kept = thinned_evenly(ALL, replace(ENTRY, share=share), 0)

    for device, size in POOLS.items():
        assert abs(kept.of_devices(device).n - share * size * len(WORKLOADS)) <= 1, device


@pytest.mark.parametrize("share", SHARES)
def test_no_program_is_left_alone_in_its_workload_on_its_device(share: float) -> None:
    kept = thinned_evenly(ALL, replace(ENTRY, share=share), 0)

    assert np.bincount(kept.group).min() >= 2


@pytest.mark.parametrize("share", [1 / 4, 1 / 8])
def test_a_share_of_several_programs_is_one_of_every_workload(share: float) -> None:
    kept = thinned_evenly(ALL, replace(ENTRY, share=share), 0)

    for device, size in POOLS.items():
        own = kept.of_devices(device)
        assert workloads_of(own) == set(WORKLOADS)
        assert set(np.bincount(own.group).tolist()) <= {int(share * size), int(share * size) + 1}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", ["programs", "workloads"])
def test_a_larger_share_holds_the_smaller(kind: str, seed: int) -> None:
    drawn = [set(thinned_evenly(ALL, of(kind, share), seed).latency_s) for share in SHARES]

    assert len(drawn[0]) == ALL.n
    assert all(smaller < larger for larger, smaller in pairwise(drawn[:5]))
    assert all(smaller <= larger for larger, smaller in pairwise(drawn))


@pytest.mark.parametrize("kind", ["programs", "workloads"])
def test_what_is_drawn_depends_on_the_seed_alone(kind: str) -> None:
    drawn = [thinned_evenly(ALL, of(kind, 1 / 4), seed).latency_s.tolist() for seed in (0, 0, 1)]

    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("share", [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32])
def test_every_device_gives_the_same_share_of_its_workloads_with_all_their_programs(share: float) -> None:
    programs = made(SOME)

    kept = thinned_evenly(programs, replace(ENTRY, workload_share=share), 0)

    assert kept.latency_s.tolist() == programs.of_workloads(workloads_of(kept)).latency_s.tolist()
    assert len(workloads_of(kept)) == round(share * 72)
    for device, own in SOME.items():
        assert abs(len(workloads_of(kept.of_devices(device))) - share * len(own)) <= 1, device


def test_which_workloads_are_drawn_does_not_depend_on_the_tested_device() -> None:
    other_order = {device: dict(reversed(own.items())) for device, own in reversed(SOME.items())}

    drawn = [
        workloads_of(thinned_evenly(made(sizes), replace(ENTRY, workload_share=1 / 8), 0))
        for sizes in (SOME, other_order)
    ]

    assert drawn[0] == drawn[1]


def test_a_share_of_few_workloads_is_one() -> None:
    assert thinned_evenly(made({"a": {"w": 4, "v": 4}}), replace(ENTRY, workload_share=1 / 32), 0).n == 4


@pytest.mark.parametrize("entry", LEARNING_JOINT, ids=lambda entry: entry.variant)
def test_no_device_teaches_what_is_held_out(entry: GridEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    held_out = {"h0": 16, "h1": 16}
    own = made({"a": {**dict.fromkeys(WORKLOADS, 16), **held_out}})
    # One workload is of another split, and on no side of this one.
    rest = made({device: {**dict.fromkeys(WORKLOADS, 16), **held_out, "elsewhere": 16} for device in "bc"}, first=own.n)
    source = DeviceData(DATASETS / "nvidia-h200", "nvidia-h200")
    monkeypatch.setattr(source, "programs", lambda _: (own, rest))
    part = SplitPart("s", 0, frozenset(WORKLOADS), frozenset(held_out))

    train, test = source.sides(part, entry, seed=0)

    assert workloads_of(train) <= set(WORKLOADS)
    assert {train.device_ids[number] for number in np.unique(train.device)} == set("abc")
    assert test.latency_s.tolist() == own.of_workloads(set(held_out)).latency_s.tolist()


def test_a_model_of_one_device_learns_from_others_data_beside_what_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    own, more = made({"a": {"w": 4, "h": 4}}), made({"b": {"w": 4, "h": 4, "elsewhere": 4}}, first=8)
    source = DeviceData(DATASETS / "nvidia-h200", "nvidia-h200", also=DATASETS / "nvidia-a100")
    monkeypatch.setattr(source, "programs", lambda _: (own, more))

    train, _ = source.sides(SplitPart("s", 0, frozenset({"w"}), frozenset({"h"})), GridEntry("gbt"), seed=0)

    assert workloads_of(train.of_devices("a")) == {"w"}
    assert workloads_of(train.of_devices("b")) == {"w", "elsewhere"}


@pytest.fixture(scope="module")
def cpu() -> DeviceData:
    return DeviceData(DATASETS / "amd-epyc-zen5", "amd-epyc-zen5-2c")


@pytest.mark.parametrize("seed", [0, 2])
@pytest.mark.parametrize("name", ["validation-40", "validation-40-seed1"])
def test_no_tested_workload_is_in_validation_or_in_its_training_side(cpu: DeviceData, name: str, seed: int) -> None:
    whole = load_split(cpu.data, MANY)

    (part,) = cpu.parts([name], seed)

    assert not (part.train | part.test) & set(whole.test)
    assert part.train | part.test == set(whole.train)
    assert not part.train & part.test
    assert (len(part.test), part.split, part.untouched) == (40, name, set(whole.test))


def test_each_seed_draws_its_own_validation_workloads_unless_the_name_says_which(cpu: DeviceData) -> None:
    drawn = [next(cpu.parts(["validation-40"], seed)).test for seed in (0, 0, 1)]
    named = [next(cpu.parts(["validation-40-seed1"], seed)).test for seed in (0, 2)]

    assert drawn[0] == drawn[1] != drawn[2]
    assert named == [drawn[2], drawn[2]]


def test_during_validation_nothing_is_learned_from_tested_workloads_of_other_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = {"w": 4, "v": 4, "h": 4}
    own, more = made({"a": sizes}), made({"b": {**sizes, "elsewhere": 4}}, first=12)
    source = DeviceData(DATASETS / "nvidia-h200", "nvidia-h200", also=DATASETS / "nvidia-a100")
    monkeypatch.setattr(source, "programs", lambda _: (own, more))
    part = SplitPart("validation-1", 0, frozenset({"w"}), frozenset({"v"}), untouched=frozenset({"h"}))

    train, test = source.sides(part, GridEntry("gbt"), seed=0)

    assert workloads_of(train.of_devices("a")) == {"w"}
    assert workloads_of(train.of_devices("b")) == {"w", "elsewhere"}
    assert workloads_of(test) == {"v"}


def test_the_joint_curves_are_of_the_shipped_recipe_and_of_its_trees() -> None:
    shipped = dict(option.split("=", 1) for option in ANY_DEVICE)

    of_blend = {str(entry.options) for entry in LEARNING_JOINT if entry.variant.startswith("blend, ")}
    (trees,) = {str(entry.options["members"]) for entry in LEARNING_JOINT if entry.variant.startswith("trees, ")}

    assert of_blend == {str(shipped)}
    assert shipped["members"].startswith(f"{trees} ")
    assert LEARNING_JOINT[0].make().options.members == trees  # type: ignore[attr-defined]
    assert len({entry.label for entry in LEARNING_JOINT}) == len(LEARNING_JOINT) == 2 * (7 + 5)
