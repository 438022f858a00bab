from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.dataset.blocks import ProgramBlock, ProgramBlocks, open_devices
from costhub.dataset.features.cache import FeatureCache
from costhub.dataset.features.program_key import keys_of_records
from costhub.dataset.features.specs import DEFAULT_SPEC, find_spec
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import Programs
from costhub.errors import DataError

SPEC = find_spec(DEFAULT_SPEC)
BOTH = ("cpu0", "cpu1")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 programs of 7 workloads on each of two devices; a tenth failed."""
    rng = np.random.default_rng(0)
    root = DataFolder.create(tmp_path_factory.mktemp("blocks") / "data")
    for device in BOTH:
        ids = [f"{device}-{n:05d}" for n in range(300)]
        with root.writer(device) as writer:
            for n, record_id in enumerate(ids):
                failed: dict[str, Any] = {"status": "run_error", "error": "x", "run_s": []}
                writer.append(
                    {
                        "record_id": record_id,
                        "program_id": record_id,
                        "workload_id": f"w{n * 5 % 7}",
                        "device_id": device,
                        "target": '{"kind":"llvm"}',
                        "trace": f"{root.path} {record_id}",
                        "proposed_by": "random",
                        **(failed if n % 10 == 9 else {"status": "ok", "run_s": [float(rng.uniform(1, 9))]}),
                    }
                )
        rows = [np.full((n % 4, SPEC.width), n, np.float32) for n in range(300)]
        keys = keys_of_records(root, device)
        FeatureCache(device, SPEC).append([keys[record_id] for record_id in ids], rows)
    return root.path


def equal(found: Programs, expected: Programs) -> bool:
    """Whether they are the same programs, with equal features and latencies, in the same order."""
    names = [[p.workload_ids[w] for w in p.workload] for p in (found, expected)]
    return names[0] == names[1] and all(
        np.array_equal(getattr(found, field), getattr(expected, field)) for field in ("rows", "counts", "latency_s")
    )


@pytest.mark.parametrize(("block_programs", "number"), [(1, 14), (100, 6), (10_000, 2)])
@pytest.mark.parametrize("failures", [False, True])
def test_blocks_hold_whole_groups_and_make_up_the_whole(
    data: Path, block_programs: int, number: int, failures: bool
) -> None:
    whole = load_programs(data, device=BOTH, failures=failures)

    blocks = ProgramBlocks.open(data, device=BOTH, failures=failures, block_programs=block_programs)

    assert len(blocks) == number
    assert blocks.sizes == tuple(block.n for block in blocks)
    assert equal(Programs.join(list(blocks)), whole)
    assert np.array_equal(np.concatenate([block.throughput() for block in blocks]), whole.throughput())


def test_blocks_are_chosen_and_counted_by_workload(data: Path) -> None:
    blocks = ProgramBlocks.open(data, device=BOTH, block_programs=80)

    few = blocks.of_workloads({"w1", "w4"})

    expected = load_programs(data, device=BOTH).of_workloads({"w1", "w4"})
    assert equal(Programs.join(list(few)), expected)
    assert few.counts() == {f"w{n}": int((expected.workload == n).sum()) for n in (1, 4)}
    assert equal(Programs.join(list(ProgramBlocks.open(data, device=BOTH, workloads={"w1", "w4"}))), expected)


def test_blocks_are_chosen_by_device(data: Path) -> None:
    blocks = ProgramBlocks.open(data, device=BOTH)

    for device_id in BOTH:
        own = Programs.join(list(blocks.of_devices({device_id})))
        assert equal(own, load_programs(data, device=device_id))


@pytest.mark.parametrize("of", [1, 2, 3, 9])
@pytest.mark.parametrize("block_programs", [1, 10_000])
def test_shares_are_about_equal_and_make_up_the_whole(data: Path, of: int, block_programs: int) -> None:
    blocks = ProgramBlocks.open(data, device=BOTH, block_programs=block_programs)

    shares = [blocks.share(number, of) for number in range(of)]

    programs = [sum(share.sizes) for share in shares]
    assert sum(programs) == sum(blocks.sizes)
    assert max(programs) - min(programs) <= 43, "a workload on a device"
    latencies = [block.latency_s for share in shares for block in share]
    assert sorted(np.concatenate(latencies)) == sorted(load_programs(data, device=BOTH).latency_s)


def test_whole_workloads_are_held_out(data: Path) -> None:
    blocks = ProgramBlocks.open(data, device=BOTH, block_programs=80)

    rest, held_out = blocks.split_off(0.2, seed=0)

    assert held_out is not None
    assert len(held_out.workload_ids) == 2
    assert set(held_out.device_ids) == set(BOTH)
    assert set(rest.counts()) == set(blocks.counts()) - set(held_out.workload_ids)
    assert sum(rest.sizes) + held_out.n == sum(blocks.sizes)
    others = {blocks.split_off(0.2, seed=seed)[1].workload_ids for seed in range(5)}  # type: ignore[union-attr]
    assert len(others) > 1
    # As many as are allowed at most: two are held out in any case.
    assert len(blocks.split_off(0.9, seed=0, most_programs=10)[1].workload_ids) == 2  # type: ignore[union-attr]
    assert blocks.of_workloads({"w1", "w2", "w3"}).split_off(0.2, seed=0)[1] is None


def test_a_block_is_read_in_another_process_too(data: Path) -> None:
    blocks = ProgramBlocks.open(data, device=BOTH, block_programs=80)

    sent = pickle.dumps(blocks[2:3])
    [found] = pickle.loads(sent)  # noqa: S301  our own bytes

    assert len(sent) < 20_000
    assert equal(found, blocks[2])


def test_a_folder_without_good_programs_has_no_blocks(tmp_path: Path, measurement: Any) -> None:
    root = DataFolder.create(tmp_path / "data")
    with root.writer("cpu0") as writer:
        writer.append(measurement(0, status="run_error", error="x", run_s=[]))

    assert len(ProgramBlocks.open(root.path)) == 0
    with pytest.raises(DataError, match="no measurements of 'cpu9'"):
        ProgramBlocks.open(root.path, device="cpu9")


@pytest.fixture
def six(tmp_path: Path) -> Path:
    """Six measurements of two workloads in turn; the third failed, the fourth has no features."""
    root = DataFolder.create(tmp_path / "data")
    ids = [f"r{n}" for n in range(6)]
    with root.writer("cpu0") as writer:
        for n, record_id in enumerate(ids):
            outcome = (
                {"status": "ok", "run_s": [1.0 + n]} if n != 2 else {"status": "run_error", "error": "x", "run_s": []}
            )
            writer.append(
                {
                    "record_id": record_id,
                    "program_id": record_id,
                    "workload_id": f"w{n % 2}",
                    "device_id": "cpu0",
                    "target": '{"kind":"llvm"}',
                    "trace": f"{root.path} {record_id}",
                    "proposed_by": "random",
                    **outcome,
                }
            )
    rows = [np.full((1, SPEC.width), n, np.float32) if n != 3 else None for n in range(6)]
    keys = keys_of_records(root, "cpu0")
    FeatureCache("cpu0", SPEC).append([keys[record_id] for record_id in ids], rows)
    return root.path


def open_six(six: Path, *, failures: bool) -> ProgramBlock:
    (block,) = open_devices(six, "cpu0", None, SPEC.name, failures=failures)
    return block


@pytest.mark.parametrize(
    ("failures", "records", "latency_s"),
    [
        (False, ["r0", "r4", "r1", "r3", "r5"], [1.0, 5.0, 2.0, 4.0, 6.0]),
        (True, ["r0", "r2", "r4", "r1", "r3", "r5"], [1.0, np.inf, 5.0, 2.0, 4.0, 6.0]),
    ],
)
def test_measurements_are_sorted_by_workload_and_keep_their_order_within(
    six: Path, failures: bool, records: list[str], latency_s: list[float]
) -> None:
    block = open_six(six, failures=failures)
    keys = keys_of_records(DataFolder.open(six), "cpu0")
    assert block.keys.to_pylist() == [keys[record_id] for record_id in records]
    assert block.latency_s.tolist() == latency_s


def test_programs_without_features_are_left_out_and_some_can_be_read_alone(six: Path) -> None:
    complete, _ = open_six(six, failures=False).with_features(progress=False)
    assert complete.load(progress=False).rows[:, 0].tolist() == [0.0, 4.0, 1.0, 5.0]

    last = complete.take(np.array([1, 3])).load(progress=False)
    assert last.rows[:, 0].tolist() == [4.0, 5.0]
    assert last.workload_ids == ("w0", "w1")
    assert last.device_ids == ("cpu0",)


def test_an_unknown_device_is_refused(six: Path) -> None:
    with pytest.raises(DataError, match="cpu9"):
        open_devices(six, ["cpu0", "cpu9"], None, SPEC.name, failures=False)
