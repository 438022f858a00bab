"""Provides TunedNetwork: a library of a whole network as a function of torch tensors."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from costhub.collector.device.cpu_state import core_count
from costhub.errors import ArgumentError, CosthubError, NetworkError, last_line
from costhub.files import MAX_REPORT_BYTES, read_regular

_BIG_CORES = 1
"""TVM's number for "the fastest cores first"."""

CUDA = "cuda"
"""TVM's name for the kind of module that holds the code of an NVIDIA GPU."""
_NEEDS_CUDA = "ffi.Module.load_from_bytes.cuda"
"""What TVM misses if it is to load such a module without a driver."""
_ALIGNMENT = 64
"""TVM expects arrays to begin at a multiple of this many bytes: its vector instructions may crash on others."""
_ELF64, _ELF_HEADER = b"\x7fELF\x02\x01", 64
"""The first bytes of a library on 64-bit Linux (little-endian), and the size of its header."""


def load_network(library: str | Path, *, threads: int | None = None) -> TunedNetwork:
    """Loads a network that `costhub.tune` or `costhub.compile` has compiled, as a function of torch tensors.

    Args:
        library: The file, such as ``tuned/resnet-18.so``. It is machine code: load only your own.
        threads: How many threads compute if the network is for a CPU; by default one per core. The networks of a
            process share them: the last one loaded says how many, and the first one how many at most. They run on the
            CPUs that the process may use (``taskset``, a container), unless the variable ``TVM_BIND_THREADS`` is 1.

    Raises:
        ArgumentError: `threads` is below 1.
        NetworkError: The file does not exist, is not a library or not all of one, or TVM cannot load it.

    Example:
        >>> network = load_network("tuned/resnet-18.so", threads=2)  # doctest: +SKIP
        >>> network(torch.zeros(1, 3, 224, 224)).shape  # doctest: +SKIP
        torch.Size([1, 1000])
    """
    return TunedNetwork(library, threads=threads)


class TunedNetwork:
    """A network that `costhub.tune` or `costhub.compile` has compiled; call it as the torch network that it was.

    Tensors go in and out by DLPack, without copies. An input is copied if it is not contiguous, if it does not begin
    at a multiple of 64 bytes (as a row of a batch may), or if it is a NumPy array. Loading needs only TVM. A network
    for a GPU takes inputs from the CPU too, and leaves its outputs on the GPU.

    One call computes at a time; a call from another thread waits. Call it from a long-lived thread: TVM creates threads
    for each calling thread, and keeps them when that one ends.
    Load it in the process that calls it: TVM's threads do not survive a fork.

    Indices are not checked: a token id outside its table reads other memory, and may end the process.

    Args:
        library: As for `load_network`.
        threads: As for `load_network`.

    Raises:
        ArgumentError: As for `load_network`.
        NetworkError: As for `load_network`.
    """

    def __init__(self, library: str | Path, *, threads: int | None = None) -> None:
        self.library, self.threads = Path(library), core_count() if threads is None else threads
        if self.threads < 1:
            raise ArgumentError(f"threads must be at least 1, got {self.threads}; by default, there is one per core.")
        if self.library.suffix != ".so" or not self.library.is_file():
            what = "is not a library (.so), as `costhub tune` writes it" if self.library.exists() else "does not exist"
            raise NetworkError(f"{self.library} {what}. Give the file, such as tuned/my_network.so.")
        if _is_cut_off(self.library):
            raise NetworkError(f"{self.library} is incomplete, as after an interrupted copy. Copy it again.")
        self._process = os.getpid()
        # TVM's virtual machine keeps its state in itself: two calls at once would crash the process.
        self._one_at_a_time = threading.Lock()
        _use_threads(self.threads)
        try:
            machine, self._device = load_machine(library)
            self._main, self._on_gpu = machine["main"], not _is_cpu(self._device)
        except NetworkError:
            raise
        except Exception as error:
            raise NetworkError(f"{library} is not a network that TVM can load: {_why(error)}.") from error

    def __call__(self, *inputs: Any) -> Any:
        """The output of the network as a torch tensor, or several in a tuple.

        Args:
            inputs: torch tensors, NumPy arrays, or tensors of any library with DLPack, in the shapes and types of
                the export; by position, since a library does not know their names.

        Raises:
            NetworkError: The inputs are not what the network takes, or this process was forked after the network had
                been loaded.
        """
        if os.getpid() != self._process:
            # TVM's pool would wait for ever for threads that only the other process has.
            raise NetworkError(
                f"{self.library} was loaded before this process was forked, and TVM's threads do not survive a fork. "
                "Load the network in each worker, after it has started."
            )
        for value in inputs:
            if not hasattr(value, "__dlpack__"):
                raise NetworkError(
                    f"{self.library} takes torch tensors or NumPy arrays, one for each input; this is a "
                    f"{type(value).__name__}."
                )
        try:
            with self._one_at_a_time:
                outputs = self._called(inputs)
        except Exception as error:
            if self._on_gpu:
                raise NetworkError(
                    f"{self.library} does not run: {_why(error)}. It takes the shapes and types of the export, and "
                    "runs only on GPUs of the architecture that it was tuned for."
                ) from error
            given = ", ".join(f"{str(x.dtype).rpartition('.')[2]} {tuple(x.shape)}" for x in inputs) or "none"
            raise NetworkError(
                f"{self.library} does not run with these inputs ({given}): {_why(error)}. "
                f"{_expected_inputs(self.library)}"
            ) from error
        return _to_torch(outputs)

    def _called(self, inputs: tuple[Any, ...]) -> Any:
        if not self._on_gpu:
            return self._main(*(_to_tvm(value, self._device) for value in inputs))
        import torch
        import tvm_ffi

        # On torch's stream: there it has computed the inputs, and there it will read the outputs.
        with tvm_ffi.use_torch_stream() if torch.cuda.is_available() else contextlib.nullcontext():
            return self._main(*(_to_tvm(value, self._device) for value in inputs))

    def __repr__(self) -> str:
        return f"TunedNetwork({str(self.library)!r}, threads={self.threads})"


def _expected_inputs(library: Path) -> str:
    """What a network takes, in a sentence, with the figures of the report beside its library where there is one."""
    takes = "It takes the shapes and types of the export, whose batch size is fixed"
    try:
        report = json.loads(read_regular(library.with_name("report.json"), limit=MAX_REPORT_BYTES, error=NetworkError))
        named = {Path(each["library"]).name: each["inputs"] for each in report["networks"] if each["library"]}
        inputs = ", ".join(f"{dtype} {tuple(shape)}" for dtype, shape in named[library.name])
    except (CosthubError, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return f"{takes}."
    return f"{takes}: {inputs}."


def load_machine(library: str | Path) -> tuple[Any, Any]:
    """A library of `compile_network` in a virtual machine, and the TVM device that it is for.

    Args:
        library: The file.

    Raises:
        NetworkError: It is for a GPU, and TVM cannot use one here.
        Exception: Whatever TVM raises for a file that it cannot load.
    """
    import tvm
    from tvm import relax

    try:
        module = tvm.runtime.load_module(os.fspath(library))
    except Exception as error:
        if _NEEDS_CUDA in str(error):
            from costhub.collector.device.identity import CUDA_NEEDS

            raise NetworkError(
                f"{library} is for an NVIDIA GPU, and TVM cannot use one here: it needs {CUDA_NEEDS}."
            ) from error
        raise
    device = tvm.cuda() if CUDA in _kinds(module) else tvm.cpu()
    return relax.VirtualMachine(module, device), device


def _is_cut_off(library: Path) -> bool:
    """Whether the end of a library is missing: the system's loader would map it, and end the process with SIGBUS."""
    with library.open("rb") as file:
        header = file.read(_ELF_HEADER)
    if not header.startswith(_ELF64):
        return _ELF64.startswith(header)  # Other systems' libraries are theirs to check.
    if len(header) < _ELF_HEADER:
        return True
    (sections,) = struct.unpack_from("<Q", header, 40)
    size, count = struct.unpack_from("<HH", header, 58)
    # Linkers write the table of sections last.
    return bool(library.stat().st_size < sections + size * count)


def _is_cpu(device: Any) -> bool:
    import tvm

    return bool(device == tvm.cpu())


def _kinds(module: Any) -> set[str]:
    """The kinds of a TVM runtime module and of all that it imports."""
    return {str(module.kind)}.union(*(_kinds(each) for each in module.imports))


def _why(error: Exception) -> str:
    return last_line(error).rstrip(".")


def _use_threads(threads: int) -> None:
    """Sets how many threads TVM computes with in this process; left to itself, it takes half of the CPUs.

    It also binds them to the CPUs from 0 up, whichever the process may use, and narrows those of the calling thread,
    which all threads and processes that this one starts inherit. Unbound threads stay on the CPUs of the process.
    """
    # A Python thread reads these variables with its first kernel, and only then; later it can use fewer threads.
    os.environ["TVM_NUM_THREADS"] = str(threads)
    os.environ.setdefault("TVM_BIND_THREADS", "0")
    import tvm  # noqa: F401  (it registers the function)
    import tvm_ffi

    tvm_ffi.get_global_func("runtime.config_threadpool")(_BIG_CORES, threads)


def _to_tvm(value: Any, device: Any) -> Any:
    import tvm

    if isinstance(value, np.ndarray):
        return tvm.runtime.tensor(value, device)  # a copy: NumPy's arrays begin at multiples of 16 bytes
    if hasattr(value, "detach"):
        value = value.detach().contiguous()
        value = value if value.data_ptr() % _ALIGNMENT == 0 else value.clone()
    tensor = tvm.runtime.from_dlpack(value)
    if tensor.device == device:
        return tensor
    copied = tensor.copyto(device)
    device.sync()  # The tensor may be gone, or changed, before the copy is done.
    return copied


def _to_torch(value: Any) -> Any:
    import torch
    import torch.utils.dlpack

    if hasattr(value, "__dlpack__"):
        if not _is_cpu(value.device) and not torch.cuda.is_available():
            return torch.from_numpy(value.numpy())  # A torch without CUDA cannot hold it.
        return torch.utils.dlpack.from_dlpack(value)
    if isinstance(value, Mapping):
        return {str(name): _to_torch(each) for name, each in value.items()}
    outputs = tuple(_to_torch(each) for each in value)
    # TVM's importer makes a tuple of the only output too.
    return outputs[0] if len(outputs) == 1 else outputs
