"""Settings that every test shares."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from costhub.dataset.programs import Programs
from costhub.files import CACHE_VARIABLE
from tests.relax_networks import two_layers

# Threads that wait for one another must not spin: with two workers on two cores they would take each
# other's time. Read when torch and xgboost are loaded, hence here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# No deadline: a loaded machine is not a failure. Derandomised: a change that passed here passes in CI.
# `pytest --hypothesis-profile=explore` looks for new examples instead.
settings.register_profile("costhub", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("costhub")


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heeded() -> Iterator[None]:
    """Tests send SIGINT; a shell without job control starts what it puts into the background without it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True, scope="session")
def _quiet() -> Iterator[None]:
    """What else runs on the machine of the tests changes no output."""
    with pytest.MonkeyPatch.context() as patched:
        # The other workers are what disturbs; tests of the waiting itself set their own figure.
        patched.setattr("costhub.collector.run.drift_monitor.FREE_WAITING_S", 0.0)
        patched.setattr("costhub.api.measuring.load_average", lambda: 0.0)
        yield


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Models and features that tests keep, or plant, are not those of whoever runs them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(CACHE_VARIABLE, str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _warm_children() -> Iterator[None]:
    """Children that imported TVM or torch serve one test after another, where every stranger would have their own."""
    from costhub.dataset.check import folder
    from costhub.dataset.features import compute
    from costhub.hub.model_check import model_gate
    from costhub.isolation.child import Child
    from costhub.isolation.pool import ChildPool
    from costhub.isolation.tvm_children import tvm_child

    def pool(*args: Any, environment: Any, **options: Any) -> ChildPool:
        assert environment, "the origin of the programs"
        return ChildPool(*args, **options)

    def child(*, is_shared: bool, limits: Any) -> Child:
        assert not is_shared
        return Child(limits=limits)

    def child_with_tvm(*, is_shared: bool) -> Child:
        assert not is_shared
        return tvm_child()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compute, "ChildPool", pool)
        patched.setattr(folder, "tvm_child", child_with_tvm)
        patched.setattr(model_gate, "Child", child)
        patched.setattr("costhub.isolation.process.IDLE_S", 300.0)
        yield


@pytest.fixture
def torchrun() -> Callable[..., str]:
    """Runs a command as two processes of `torchrun` on this machine, and gives what they print."""

    def run(*command: str) -> str:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--nproc-per-node",
                "2",
                "--rdzv-backend",
                "c10d",
                "--rdzv-endpoint",
                "127.0.0.1:0",
                "--local-addr",
                "127.0.0.1",
                *command,
            ],
            env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def _loopback() -> ModuleType:
    path = Path(__file__).parent / "hub/loopback_hub.py"
    spec = importlib.util.spec_from_file_location("loopback_hub", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their own module up there.
    sys.modules["loopback_hub"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def server() -> Iterator[Any]:
    """A Hugging Face hub on this machine, without repositories."""
    with _loopback().LoopbackHub() as running:
        yield running


@pytest.fixture
def hugging_face(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The server, with the client of this process turned to it: it reads its settings when it is imported."""
    from huggingface_hub import constants

    for name in [name for name in os.environ if name.startswith(("HF_", "COSTHUB_"))]:
        monkeypatch.delenv(name)
    template = f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    for name, value in {
        "ENDPOINT": server.url,
        "HUGGINGFACE_CO_URL_TEMPLATE": template,
        "HF_HUB_CACHE": str(tmp_path / "hf/hub"),
        "HF_HOME": str(tmp_path / "hf"),
        "HF_TOKEN_PATH": str(tmp_path / "hf/token"),
        "HF_HUB_DISABLE_XET": True,
    }.items():
        monkeypatch.setattr(constants, name, value)
    return server


@pytest.fixture(scope="session")
def _published() -> dict[str, Any]:
    """What a server holds after a publication, by the rows published."""
    return {}


@pytest.fixture
def publish_rows(
    measured: Callable[..., Path], hugging_face: Any, tmp_path: Path, _published: dict[str, Any]
) -> Callable[..., None]:
    """Has the server hold measured rows as hf-hub:acme/data: published for the first test, copied for all others."""
    from costhub.hub.publish import publish

    def put(**rows: Any) -> None:
        if (key := repr(rows)) not in _published:
            with pytest.MonkeyPatch.context() as patch:  # the check has its own tests
                patch.setattr("costhub.hub.publish.check_folder", lambda *_, **__: [])
                publish(measured(tmp_path / "published", **rows), "hf-hub:acme/data", agree=True)
            _published[key] = hugging_face.held()
        hugging_face.hold(_published[key])

    return put


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """Finds a port of the loopback that nothing listens on."""

    def find() -> int:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            return port

    return find


@pytest.fixture(scope="session")
def two_boards(free_port: Callable[[], int]) -> Iterator[tuple[str, str]]:
    """Two servers on this machine: the address of their tracker, and their key."""
    from contextlib import ExitStack

    from costhub.collector.boards.server import board_server, tracker_server
    from costhub.collector.boards.tracker import Tracker
    from costhub.collector.device.identity import identify
    from costhub.collector.device.local import local_target

    identity = {"device": identify(), "target": local_target()}
    with ExitStack() as stack:
        port = stack.enter_context(tracker_server(port=free_port())).port
        for _ in range(2):
            server = board_server(Tracker("127.0.0.1", port), "pair", port=free_port(), identity=identity)
            stack.enter_context(server)
        yield f"127.0.0.1:{port}", "pair"


@pytest.fixture(scope="session")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a real search, of six programs for each of two kernels; beside it ``net.json``, their network."""
    import tvm

    from costhub.api.tune import TuneOptions, tune
    from costhub.collector.device.local import local_target
    from costhub.collector.workloads.network_kernels import network_workloads

    root = tmp_path_factory.mktemp("searched")
    (root / "net.json").write_text(tvm.ir.save_json(two_layers(2)))
    kernels = network_workloads(
        [str(root / "net.json")], target=json.dumps(local_target()), least_flop=0.0, least_bytes=0.0
    )
    options = TuneOptions(method="frozen", strategy="random", stop="never")
    found = {f"layer{number}": kernel.module() for number, kernel in enumerate(kernels)}
    tune(found, root / "tuned", trials=6, options=options, progress=False)
    return root / "tuned"


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes a data folder of real rows of one device, from `start` on, that keeps every rule; a copy from then on."""
    import pyarrow as pa
    import pyarrow.compute as pc

    import costhub
    from costhub.dataset.folder import DataFolder

    source = DataFolder.open(Path(costhub.__file__).parent / "hub/embedded/datasets/costhub/amd-epyc-zen5")
    device_id = "amd-epyc-zen5-1c"
    device = next(row for row in source.devices().to_pylist() if row["device_id"] == device_id)
    described = source.workloads()
    rows = source.measurements(device_id)
    # Programs that two sessions measured come first, in one order in both: so folders can be compared.
    table = rows.append_column("place", pa.array(range(rows.num_rows)))
    counts = pc.value_counts(table["program_id"]).to_pylist()
    twice = pa.array([entry["values"] for entry in counts if entry["counts"] > 1])
    again = table.filter(pc.is_in(table["program_id"], value_set=twice)).sort_by("timestamp")
    first = pa.array([again["session"][0].as_py()])

    @cache
    def made(start: int, count: int, session: int | None) -> Path:
        path = tmp_path_factory.mktemp("measured")
        chosen = rows.slice(start, count)
        if session is not None:
            is_first = pc.is_in(again["session"], value_set=first)
            chosen = again.filter(is_first if session == 0 else pc.invert(is_first)).drop_columns("place")
            chosen = chosen.cast(rows.schema)
        folder = DataFolder.create(path)
        folder.put_device(device)
        wanted = pc.is_in(described["workload_id"], value_set=chosen["workload_id"].unique())
        folder.put_workloads(described.filter(wanted).to_pylist())
        with folder.writer(device_id) as writer:
            writer.extend(chosen)
        return path

    def make(path: Path, start: int = 0, count: int = 40, *, session: int | None = None) -> Path:
        assert not path.exists()
        return Path(shutil.copytree(made(start, count, session), path))

    return make


@pytest.fixture(scope="session")
def noisy(measured: Callable[..., Path]) -> Callable[[Path], Path]:
    """Makes a data folder of one session whose repeats disagree, as beside other programs (CH060)."""
    from costhub.dataset.folder import DataFolder

    def make(path: Path) -> Path:
        folder = DataFolder.open(measured(path))
        rows = folder.measurements().to_pylist()
        for shard in path.glob("measurements/*/*.parquet"):
            shard.unlink()
        with folder.writer(rows[0]["device_id"]) as writer:
            for number, row in enumerate(rows):
                run_s = [seconds * (1, 1.23)[place % 2] for place, seconds in enumerate(row["run_s"])]
                writer.append({**row, "record_id": f"r{number}", "session": "one", "run_s": run_s})
        return path

    return make


@pytest.fixture
def sound_model(tmp_path: Path) -> Callable[..., Path]:
    """Makes a copy of a shipped model of two architectures, without its manifest unless that is wanted."""
    import costhub

    shelf = Path(costhub.__file__).parent / "hub/embedded/models/costhub"

    def make(arch: str = "mlp", *, manifest: bool = False) -> Path:
        folder = tmp_path / f"given-{arch}"
        shutil.copytree(shelf / f"amd-epyc-zen5-2c-{arch}", folder)
        if not manifest:
            (folder / "manifest.json").unlink()
        return folder

    return make


def learnable_programs(workloads: int = 6, each: int = 40, *, seed: int = 0, noise: float = 0.0) -> Programs:
    """Programs of 0 to 4 rows whose log latency is a sum over their rows, shifted per workload."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, size=workloads * each)
    rows = rng.normal(size=(int(counts.sum()), 6)).astype(np.float32)
    rows[:, -1] = 3.0  # a column that never varies
    workload = np.repeat(np.arange(workloads), each)
    cost = np.tanh(rows[:, 0]) + 0.5 * np.maximum(rows[:, 1], 0.0) - 0.3 * rows[:, 2]
    total = np.bincount(np.repeat(np.arange(len(counts)), counts), weights=cost, minlength=len(counts))
    shift = rng.normal(size=workloads)[workload] * 2.0
    latency_s = 1e-3 * np.exp(0.5 * total + shift + noise * rng.normal(size=len(counts)))
    return Programs(rows, counts, workload, tuple(f"{seed}-{i}" for i in range(workloads)), latency_s)


@pytest.fixture(scope="session")
def make_programs() -> Callable[..., Programs]:
    return learnable_programs


@pytest.fixture(scope="session")
def train() -> Programs:
    return learnable_programs(6, seed=0)


@pytest.fixture(scope="session")
def unseen() -> Programs:
    """Programs of other workloads."""
    return learnable_programs(4, seed=1)


_MARK = 48
_MARKED_RULES = f"""\
def schedule(sch):
    block = sch.get_child_blocks(sch.get_sblock("root"))[-1]
    i, j, k = sch.get_loops(block)
    j, columns = sch.split(j, sch.sample_perfect_tile(j, n=2, max_innermost_factor={_MARK}))
    sch.reorder(i, j, k, columns)
    sch.parallel(i)
    sch.vectorize(columns)


def space(target):
    return schedule


def broken(target):
    def fails(sch):
        raise ValueError("no such loop")

    return fails
"""


@pytest.fixture
def marked_space(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> str:
    """A design space as a user writes one, for matrix products: one tile, with a limit that no other space has."""
    folder = tmp_path_factory.mktemp("marked")
    (folder / f"{folder.name}rules.py").write_text(_MARKED_RULES)
    monkeypatch.syspath_prepend(folder)
    return f"{folder.name}rules:space"


@pytest.fixture(scope="session")
def is_marked() -> Callable[[Path], list[bool]]:
    """Tells of each record in a search's folder whether its schedule is from `marked_space`."""

    def tell(folder: Path) -> list[bool]:
        lines = (folder / "database_tuning_record.json").read_text().splitlines()
        traces = [json.loads(line)[1][0] for line in lines]
        tiles = [[each[2][1] for each in made if each[0] == "SamplePerfectTile"] for made, _ in traces]
        return [limits == [_MARK] for limits in tiles]

    return tell
