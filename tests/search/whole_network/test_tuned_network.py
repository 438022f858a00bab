"""A compiled network as a function of torch tensors."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from costhub.errors import ArgumentError, NetworkError
from costhub.search.whole_network import tuned_network
from costhub.search.whole_network.tuned_network import TunedNetwork, load_network


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = relu(x) and x + x, for x of (4, 8), as a network of TVM."""
    import tvm
    from tvm import relax

    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((4, 8), "float32"))
    with builder.function("main", [x]):
        pair = relax.Tuple([builder.emit(relax.op.nn.relu(x)), builder.emit(relax.op.add(x, x))])
        builder.emit_func_output(builder.emit(pair))
    path = tmp_path_factory.mktemp("library") / "pair.so"
    tvm.compile(builder.get(), tvm.target.Target({"kind": "llvm", "num-cores": 1})).export_library(str(path))
    return path


def test_tensors_of_torch_go_in_and_come_out(library: Path) -> None:
    network, x = load_network(library, threads=1), torch.randn(8, 4).t().requires_grad_()

    positive, double = network(x)

    torch.testing.assert_close(positive, x.detach().relu())
    torch.testing.assert_close(double, 2 * x.detach())
    assert (network.threads, repr(network)) == (1, f"TunedNetwork({str(library)!r}, threads=1)")


@pytest.mark.parametrize("start", [0, 1, 3, 8])
def test_an_input_may_begin_anywhere_in_memory(library: Path, start: int) -> None:
    numbers = torch.randn(64)
    assert numbers.data_ptr() % 64 == 0
    x = numbers[start : start + 32].reshape(4, 8)

    _, double = load_network(library, threads=1)(x)

    torch.testing.assert_close(double, 2 * x)


def test_arrays_of_numpy_go_in(library: Path) -> None:
    x = np.arange(40, dtype=np.float32)[1:33].reshape(8, 4).T

    _, double = load_network(library, threads=1)(x)

    np.testing.assert_array_equal(double.numpy(), 2 * x)


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU is all that a thread can have here")
def test_the_calling_thread_keeps_its_cpus(library: Path) -> None:
    script = """
import os, sys, numpy
from costhub.search.whole_network.tuned_network import load_network
before = os.sched_getaffinity(0)
network = load_network(sys.argv[1], threads=2)
loaded = os.sched_getaffinity(0)
network(numpy.zeros((4, 8), "float32"))
print(len(before), len(loaded), len(os.sched_getaffinity(0)))
"""
    done = subprocess.run([sys.executable, "-c", script, library], check=True, capture_output=True, text=True)

    before, loaded, called = map(int, done.stdout.split())
    assert before == loaded == called > 1


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU is all that a thread can have here")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="all threads are on the only CPU")
def test_it_computes_on_the_cpus_of_the_process_whichever_thread_calls(library: Path) -> None:
    first = str(min(os.sched_getaffinity(0)))
    script = """
import os, sys, threading
os.sched_setaffinity(0, {int(sys.argv[2])})
import numpy
from costhub.search.whole_network.tuned_network import load_network
network = load_network(sys.argv[1], threads=2)
def call():
    import tvm_ffi
    network(numpy.zeros((4, 8), "float32"))
    tvm_ffi.get_global_func("runtime.config_threadpool")(1, 2)  # this thread's pool, as a parallel kernel makes it
    print(*{cpu for each in os.listdir("/proc/self/task") for cpu in os.sched_getaffinity(int(each))})
call()
thread = threading.Thread(target=call)
thread.start()
thread.join()
"""
    done = subprocess.run([sys.executable, "-c", script, library, first], check=True, capture_output=True, text=True)

    assert done.stdout.split() == [first, first], "TVM by itself would bind its threads to the CPUs from 0 up"


def test_a_process_that_was_forked_after_loading_is_told_so_and_does_not_hang(library: Path) -> None:
    network = load_network(library, threads=2)
    network(torch.zeros(4, 8))
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        try:
            network(torch.zeros(4, 8))
        except NetworkError as error:
            sender.send(str(error))
        finally:
            os._exit(0)
    try:
        assert receiver.poll(30), "the child waits for threads that it does not have"
        assert "was loaded before this process was forked" in receiver.recv()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert network(torch.zeros(4, 8))[0].shape == (4, 8)


def test_threads_that_call_one_network_wait_for_each_other(library: Path) -> None:
    network, inputs = load_network(library, threads=1), [torch.full((4, 8), float(n)) for n in range(400)]
    inside, most = 0, 0
    called = network._called

    def watched(values: tuple[Any, ...]) -> Any:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.0001)  # lets the other threads come
        outputs = called(values)
        inside -= 1
        return outputs

    network._called = watched  # type: ignore[method-assign]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(network, inputs))

    assert most == 1
    for number, (_, double) in enumerate(found):
        assert torch.equal(double, torch.full((4, 8), 2.0 * number))


def test_what_is_no_tensor_is_named(library: Path) -> None:
    with pytest.raises(NetworkError, match=r"takes torch tensors or NumPy arrays, .*; this is a list\."):
        load_network(library, threads=1)([[0.0] * 8] * 4)


def test_the_report_beside_a_library_says_what_it_takes(library: Path, tmp_path: Path) -> None:
    own = Path(shutil.copy(library, tmp_path / "pair.so"))
    report = {"networks": [{"library": "elsewhere/pair.so", "inputs": [["float32", [4, 8]]]}]}
    for content in ("[]", "torn", json.dumps({"networks": [{"library": None}]})):
        (tmp_path / "report.json").write_text(content)
        with pytest.raises(NetworkError, match=r"whose batch size is fixed\.$"):
            load_network(own, threads=1)(torch.zeros(2, 8))
    (tmp_path / "report.json").write_text(json.dumps(report))

    with pytest.raises(NetworkError, match=r"whose batch size is fixed: float32 \(4, 8\)\.$"):
        load_network(own, threads=1)(torch.zeros(2, 8))


def test_wrong_inputs_and_files_are_sentences(library: Path, tmp_path: Path) -> None:
    network = TunedNetwork(library, threads=1)

    with pytest.raises(NetworkError, match=r"pair.so does not run with these inputs \(float64 \(4, 8\)\): .*float64"):
        network(torch.zeros(4, 8, dtype=torch.float64))
    with pytest.raises(NetworkError, match="expects 1 arguments"):
        network(torch.zeros(4, 8), torch.zeros(4, 8))
    (tmp_path / "no.so").write_text("no library")
    with pytest.raises(NetworkError, match="is not a network that TVM can load"):
        TunedNetwork(tmp_path / "no.so")
    (tmp_path / "net.pt2").write_text("exported")
    with pytest.raises(NetworkError, match=r"net.pt2 is not a library \(.so\), as `costhub tune` writes it"):
        TunedNetwork(tmp_path / "net.pt2")
    with pytest.raises(NetworkError, match=r"gone.so does not exist"):
        TunedNetwork(tmp_path / "gone.so")
    with pytest.raises(ArgumentError, match="threads must be at least 1, got 0"):
        load_network(library, threads=0)


def test_a_library_of_which_a_part_was_copied_is_refused(library: Path, tmp_path: Path) -> None:
    content = library.read_bytes()
    cuts = {tmp_path / f"{length}.so": content[:length] for length in (0, 3, 63, len(content) // 3, len(content) - 1)}
    for path, part in cuts.items():
        path.write_bytes(part)
    # In a process of its own, which the system's loader would end with SIGBUS.
    script = """
import sys
from costhub.errors import NetworkError
from costhub.search.whole_network.tuned_network import load_network
for path in sys.argv[1:]:
    try:
        load_network(path, threads=1)
    except NetworkError as error:
        print(error, flush=True)
"""

    done = subprocess.run([sys.executable, "-c", script, *cuts], check=False, capture_output=True, text=True)

    said = [f"{path} is incomplete, as after an interrupted copy. Copy it again." for path in cuts]
    assert (done.stdout.splitlines(), done.returncode) == (said, 0)


def test_one_output_comes_alone_and_several_keep_their_form() -> None:
    tensor = torch.ones(2)

    assert torch.equal(tuned_network._to_torch((tensor,)), tensor)
    assert [each.tolist() for each in tuned_network._to_torch([tensor, (tensor, tensor)])[1]] == [[1.0, 1.0]] * 2
    assert tuned_network._to_torch({"a": tensor})["a"].tolist() == [1.0, 1.0]


def test_outputs_on_a_gpu_that_torch_lacks_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where TVM uses the GPU, and torch was installed without CUDA."""
    import tvm

    monkeypatch.setattr(tuned_network, "_is_cpu", lambda device: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    value = np.arange(6, dtype=np.float32).reshape(2, 3)

    found = tuned_network._to_torch([tvm.runtime.tensor(value)])

    np.testing.assert_array_equal(found.numpy(), value)


def test_what_goes_wrong_on_a_gpu_names_the_architecture(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = load_network(library, threads=1)
    monkeypatch.setattr(network, "_on_gpu", True)

    with pytest.raises(NetworkError, match="only on GPUs of the architecture that it was tuned for"):
        network(torch.zeros(3))
