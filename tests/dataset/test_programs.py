"""Programs: the rows stay with their program, whatever is selected or joined, and groups are never mixed."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.programs import Programs, WorkloadUse


def make(counts: list[int]) -> Programs:
    """Program i has counts[i] rows that all hold i."""
    features = [np.full((count, 2), float(i)) for i, count in enumerate(counts)]
    n = len(counts)
    return Programs.from_list(features, np.arange(n) % 2, ("a", "b"), np.arange(1, n + 1) * 1e-3)


def on_devices(workload: list[int], device: list[int], latency_s: list[float]) -> Programs:
    """Programs of one row of workloads a, b, ... on devices x, y, ..."""
    plain = Programs.from_list(
        [np.ones((1, 2))] * len(workload), np.array(workload), tuple("abcdefgh"), np.array(latency_s)
    )
    return dataclasses.replace(plain, device=np.array(device, np.int64), device_ids=tuple("xyz"))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.data())
def test_selected_programs_keep_their_own_rows(counts: list[int], data: st.DataObject) -> None:
    programs = make(counts)
    index = data.draw(st.lists(st.integers(0, len(counts) - 1), max_size=15))

    chosen = programs.select(np.array(index, dtype=np.int64))

    assert chosen.counts.tolist() == [counts[i] for i in index]
    assert chosen.rows[:, 0].tolist() == [float(i) for i in index for _ in range(counts[i])]


def test_selected_programs_keep_their_device() -> None:
    programs = on_devices([0, 0, 1], [2, 0, 2], [1.0, 2.0, 3.0])

    assert programs.select(np.array([2, 1])).device.tolist() == [2, 0]
    chosen = programs.of_devices({"z", "no such device"})
    assert (chosen.latency_s.tolist(), chosen.device_ids) == ([1.0, 3.0], ("x", "y", "z"))


def test_a_single_name_is_a_name_and_not_its_letters() -> None:
    programs = on_devices([0, 0, 1], [2, 0, 2], [1.0, 2.0, 3.0])

    assert programs.of_devices("z").latency_s.tolist() == [1.0, 3.0]
    assert programs.of_devices("zx").n == programs.of_workloads("".join(programs.workload_ids)).n == 0
    assert programs.of_workloads(programs.workload_ids[0]).n == 2


def test_throughput_is_relative_to_the_best_of_the_workload() -> None:
    programs = make([1, 1, 1, 1])
    assert programs.throughput().tolist() == pytest.approx([1.0, 1.0, 1 / 3, 0.5])


def test_throughput_is_relative_to_the_best_on_the_same_device() -> None:
    programs = on_devices([1, 1, 1, 1, 0], [0, 1, 0, 1, 1], [1.0, 8.0, 2.0, 4.0, 5.0])

    assert programs.group.tolist() == [1, 2, 1, 2, 0]
    assert programs.throughput().tolist() == [1.0, 0.5, 0.5, 1.0, 1.0]


def test_a_program_that_failed_has_no_throughput() -> None:
    programs = on_devices([0, 0, 0, 1], [0, 0, 1, 0], [math.inf, 2.0, math.inf, math.inf])

    # On device y every program of workload a failed.
    assert programs.throughput().tolist() == [0.0, 1.0, 0.0, 0.0]
    assert programs.is_ok.tolist() == [False, True, False, False]
    assert programs.measured().latency_s.tolist() == [2.0]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from([1.0, 2.0, 4.0, math.inf]))))
def test_groups_are_the_pairs_of_workload_and_device(rows: list[tuple[int, int, float]]) -> None:
    workload, device, latency_s = ([row[i] for row in rows] for i in range(3))
    programs = on_devices(workload, device, latency_s)

    pairs = list(zip(workload, device, strict=True))
    number = {pair: i for i, pair in enumerate(sorted(set(pairs)))}
    assert programs.group.tolist() == [number[pair] for pair in pairs]
    best = {pair: min(row[2] for row in rows if row[:2] == pair) for pair in number}
    assert programs.throughput().tolist() == [
        0.0 if math.isinf(row[2]) else best[row[0], row[1]] / row[2] for row in rows
    ]


def test_a_workload_is_informative_where_two_measured_programs_of_one_device_differ() -> None:
    programs = on_devices(
        [0, 0, 1, 1, 2, 2, 3, 3],
        [0, 0, 0, 1, 0, 0, 0, 0],
        [1.0, 2.0, 1.0, 2.0, 1.0, math.inf, 1.0, 1.0],
    )
    assert programs.informative().tolist() == [True] + [False] * 7


def test_only_the_wanted_workloads_remain() -> None:
    chosen = make([1, 2, 3]).of_workloads({"b"})
    assert chosen.n == 1
    assert len(chosen.rows) == 2


def test_joined_programs_are_those_of_the_parts_under_common_ids() -> None:
    a = dataclasses.replace(make([1, 2]), device_ids=("x",))
    b = dataclasses.replace(make([0, 1, 2]), workload_ids=("c", "a"), device_ids=("y",))
    c = dataclasses.replace(a, latency_s=np.array([9.0, math.inf]))

    joined = Programs.join([a, b, c])

    assert [joined.workload_ids[w] for w in joined.workload] == ["a", "b", "c", "a", "c", "a", "b"]
    assert [joined.device_ids[d] for d in joined.device] == [*"xx", *"yyy", *"xx"]
    assert joined.latency_s.tolist() == [1e-3, 2e-3, 1e-3, 2e-3, 3e-3, 9.0, math.inf]
    assert joined.counts.tolist() == [1, 2, 0, 1, 2, 1, 2]
    assert joined.rows[:, 0].tolist() == [0, 1, 1, 1, 2, 2, 0, 1, 1]


def test_programs_of_other_layouts_cannot_be_joined() -> None:
    a = make([1])
    with pytest.raises(ValueError, match=r"got \[\('', 2\), \('demo@1', 2\)\]"):
        Programs.join([a, dataclasses.replace(a, spec="demo@1")])
    with pytest.raises(ValueError, match=r"got \[\]"):
        Programs.join([])


@pytest.mark.parametrize(
    ("informative", "share", "held_out"),
    [(8, 0.25, 2), (8, 0.01, 2), (8, 0.5, 4), (8, 0.99, 6), (4, 0.2, 2), (3, 0.5, 0), (8, 0.0, 0)],
)
def test_whole_workloads_are_held_out_and_enough_of_them_stay(informative: int, share: float, held_out: int) -> None:
    # Each workload has two programs on each of two devices; of the last ones none differ.
    workload, device = np.repeat(np.arange(8), 4), np.tile([0, 0, 1, 1], 8)
    latency_s = np.where(workload < informative, np.arange(32.0) + 1, 1.0)
    programs = on_devices(workload.tolist(), device.tolist(), latency_s.tolist())

    rest, valid = programs.split_off(share, seed=0)

    if valid is None:
        assert (held_out, rest.n) == (0, 32)
        return
    held = set(valid.workload.tolist())
    assert len(held) == held_out
    assert held < set(range(informative))
    assert not held & set(rest.workload.tolist())
    assert (valid.n, rest.n) == (4 * held_out, 32 - 4 * held_out)


def test_what_is_held_out_depends_on_the_seed_and_not_on_the_order() -> None:
    workload = np.repeat(np.arange(8), 2).tolist()
    programs = on_devices(workload, [0] * 16, list(range(1, 17)))
    turned = dataclasses.replace(programs, workload_ids=programs.workload_ids[::-1])

    def held_out(of: Programs, seed: int) -> set[str]:
        _, valid = of.split_off(0.4, seed=seed)
        assert valid is not None
        return {valid.workload_ids[w] for w in valid.workload}

    assert held_out(programs, 1) == held_out(turned, 1)
    assert len({frozenset(held_out(programs, seed)) for seed in range(5)}) > 1


@pytest.mark.parametrize("share", [-0.1, 1.0, math.nan])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match=r"share must be in \[0, 1\)"):
        make([1, 1]).split_off(share, seed=0)


def test_rows_that_belong_to_nobody_are_refused() -> None:
    with pytest.raises(ValueError, match=r"counts\.sum"):
        Programs(np.zeros((3, 2), np.float32), np.array([2]), np.array([0]), ("a",), np.array([1.0]))


@pytest.mark.parametrize("column", ["workload", "device"])
def test_arrays_of_unequal_length_are_refused(column: str) -> None:
    with pytest.raises(ValueError, match="one entry per program"):
        dataclasses.replace(make([2]), **{column: np.array([0, 0])})


def test_chosen_programs_keep_the_name_of_their_spec() -> None:
    programs = dataclasses.replace(make([1, 2]), spec="demo@1")

    assert programs.of_workloads({"a"}).spec == "demo@1"
    assert Programs.join([programs, programs]).spec == "demo@1"


def test_what_workloads_are_stays_with_the_programs() -> None:
    uses = {"a": WorkloadUse("conv", {"net": 2.0}, "conv1")}
    first, second = dataclasses.replace(make([1, 1]), uses=uses), make([2, 2])

    joined = Programs.join([first, second])
    assert joined.uses == joined.select(np.array([0])).uses == uses
    assert repr(joined) == "Programs(4 of 2 workloads, with 6 rows)"
    named = dataclasses.replace(make([1]), spec="tiles@1", device_ids=("acme",))
    assert repr(named) == "Programs(1 of 1 workloads on acme, with 1 rows of tiles@1)"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=40), st.integers(1, 6))
def test_at_most_so_many_programs_of_each_workload_and_device_stay(places: list[tuple[int, int]], most: int) -> None:
    workload, device = ([place[side] for place in places] for side in (0, 1))
    programs = on_devices(workload, device, [float(number) for number in range(1, len(places) + 1)])

    fewer, more = (programs.at_most(count, seed=3) for count in (most, most + 1))

    assert np.bincount(fewer.group).tolist() == np.minimum(np.bincount(programs.group), most).tolist()
    assert fewer.latency_s.tolist() == sorted(fewer.latency_s)  # they stay in order
    assert set(fewer.latency_s) <= set(more.latency_s)


def test_which_programs_stay_depends_on_the_seed() -> None:
    programs = on_devices([0] * 40, [0] * 40, [float(number) for number in range(1, 41)])

    drawn = [programs.at_most(5, seed=seed).latency_s.tolist() for seed in (0, 0, 1)]

    assert drawn[0] == drawn[1] != drawn[2]
    with pytest.raises(ValueError, match="at least 1, got 0"):
        programs.at_most(0, seed=0)
