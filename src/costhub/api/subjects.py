"""Provides read_subjects: what a search or a collection is about, from names, files and objects of torch and TVM."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costhub.api.network_jobs import no_kernels_error, report_network
from costhub.api.wrong_files import check_exported, is_meant_as_file, wrong_file
from costhub.collector.workloads.zoo.networks import NETWORKS
from costhub.dataset.shards.lock import FolderLock
from costhub.errors import UnknownNameError, WorkloadError
from costhub.files import read_regular, write_replacing
from costhub.names import check_different

if TYPE_CHECKING:
    from costhub.collector.workload_queue import WorkloadSpec
    from costhub.collector.workloads.network_source import Lowering
    from costhub.search.options import Job

_RELAX = ".json"
"""The ending of files written by `tvm.ir.save_json`."""
_TORCH = ".pt2"
"""The ending of files written by ``torch.export.save``."""
_RELAX_FUNCTION = b'"relax.expr.Function"'
"""A text that `tvm.ir.save_json` writes for a module with a relax function, and for no other."""
_ALL_OF_A_SUITE = ".*"
"""After the name of a suite that is the name of a network too, such as ``resnet18.*``."""
_NODES = b'"nodes"'
"""A text in everything that `tvm.ir.save_json` writes."""
_MOST_JSON_BYTES = 1 << 30
"""Of a network, whose weights may be constants."""
_MOST_WORKLOAD_BYTES = 64 << 20
"""Of a single function: as many as on a line of a database."""
_MOST_NAME = 120
"""Bytes of the name of a network in memory."""
_OWN_STEMS = ("report", "database_workload", "database_tuning_record")
"""Names of result files, without .json: the file of a network of that name would replace one."""
_READ_S = 60.0
"""Time limit for TVM to read a module, which takes less than a second."""


@dataclass(frozen=True)
class Subjects:
    """What to tune or to measure."""

    workloads: tuple[str, ...] = ()
    """Suites, workloads, and files (.json) with one function to schedule."""
    networks: tuple[str, ...] = ()
    """Networks by name, and files: .pt2, or .json with a relax module."""
    modules: tuple[tuple[str, Any], ...] = ()
    """(name, ``tvm.IRModule`` with one function to schedule) of modules in memory."""

    @property
    def names(self) -> list[str]:
        """The names of everything, for messages."""
        return [*self.workloads, *self.networks, *(name for name, _ in self.modules)]

    def check(self, devices: Sequence[str] = ()) -> None:
        """Refuses what does not exist, before TVM or torch is imported; see `check_names`."""
        if not self.names:
            raise WorkloadError("There is nothing to tune or to measure: name a workload, a network or a file.")
        check_names(self.workloads, self.networks, devices)

    def check_once(self, devices: Sequence[str] = ()) -> None:
        """As `check`, and refuses two workloads of one name, whose results would be confused.

        Raises:
            WorkloadError: Two have the same name.
        """
        from costhub.collector.workloads.suites import find_suites

        self.check(devices)
        suites = (find_suites([name]) for name in self.workloads if Path(name).suffix != _RELAX)
        check_different([workload.name for suite in suites for workload in suite])

    def jobs(self) -> list[Job]:
        """The workloads, without the kernels of networks.

        Raises:
            WorkloadError: A file does not hold a TVM module.
        """
        from costhub.search.options import Job

        found = [job for text in self.workloads for job in named_jobs(text)]
        return found + [Job(name, mod) for name, mod in self.modules]

    def specs(self, target: Mapping[str, Any], lowering: Lowering | None = None) -> list[WorkloadSpec]:
        """The workloads as the collector takes them; a kernel that two networks contain occurs twice.

        Args:
            target: The TVM target, which determines the kernels of networks.
            lowering: How operators are lowered to kernels; by default as TVM does it on its own.

        Raises:
            WorkloadError: As for `jobs`, or a network has no kernel that can be measured.
            ArgumentError: The target or a network cannot have the precision.
        """
        names = [name for name in self.workloads if Path(name).suffix != _RELAX]
        files = [job for name in self.workloads if name not in names for job in named_jobs(name)]
        found = named_workloads(names, self.networks, target, lowering)
        found += [ModuleWorkload(job.name, job.mod) for job in files]
        found += [ModuleWorkload(name, mod) for name, mod in self.modules]
        if not found:
            raise no_kernels_error(self.networks, "measured")
        return found


@dataclass(frozen=True)
class ModuleWorkload:
    """A workload of the user's own, from memory or a file."""

    name: str
    mod: Any
    """A ``tvm.IRModule`` with one function."""
    networks: tuple[tuple[str, float], ...] = ()
    """Empty: it belongs to no network that costhub knows."""

    @property
    def family(self) -> str:
        """Its operator family."""
        from costhub.dataset.operator_class import classify

        return classify(self.mod)

    def module(self) -> Any:
        """The module itself."""
        return self.mod


def read_subjects(what: Any, out: Path) -> Subjects:
    """Sorts what is to be tuned into workloads and networks.

    Args:
        what: A name (if a network and a suite share it, that of the network; ``resnet18.*`` always names the workloads
            of the suite), a path, a ``torch.export.ExportedProgram``, a ``tvm.IRModule`` or ``PrimFunc``, several of
            these, a mapping from names to them, or what has been sorted before.
        out: Where a network in memory is written, for child processes to read, unless another process writes there.

    Raises:
        WorkloadError: It is something else, a file does not exist, two networks in memory have one name, or one has
            a name that cannot be that of a file.
        DataError: A network in memory cannot be written, because another process writes to `out`.

    Example:
        >>> read_subjects(["matmul.128x128x128", "mobilenet_v2"], Path("tuned"))
        Subjects(workloads=('matmul.128x128x128',), networks=('mobilenet_v2',), modules=())
    """
    if isinstance(what, Subjects):
        return what
    if isinstance(what, Mapping):
        pairs: Iterable[tuple[str | None, Any]] = what.items()
    else:
        pairs = ((None, each) for each in (what if isinstance(what, list | tuple) else [what]))
    workloads: list[str] = []
    networks: list[str] = []
    modules: list[tuple[str, Any]] = []
    saved: list[str] = []
    for name, each in pairs:
        if isinstance(each, str | os.PathLike):
            text = os.fspath(each)
            (networks if is_network(text) else workloads).append(text.removesuffix(_ALL_OF_A_SUITE))
        elif _is_of(each, "torch.export", "ExportedProgram"):
            networks.append(_saved_program(each, out, _file_of(name, saved)))
        else:
            mod = _one_module(each)
            if _is_relax(mod):
                networks.append(_saved_module(mod, out, _file_of(name, saved)))
            else:
                modules.append((name or _function_name(each), mod))
    return Subjects(tuple(workloads), tuple(networks), tuple(modules))


def is_network(text: str) -> bool:
    """Whether a name or a file stands for a whole network rather than for single workloads.

    Example:
        >>> is_network("mobilenet_v2"), is_network("mine.pt2"), is_network("softmax")
        (True, True, False)
    """
    path = Path(text)
    if path.suffix == _RELAX and path.is_file():
        return _RELAX_FUNCTION in read_regular(path, limit=_MOST_JSON_BYTES, error=WorkloadError)
    return text in NETWORKS or path.suffix == _TORCH


def _is_of(value: Any, module: str, name: str) -> bool:
    """Whether `value` is an instance of a class of torch or TVM, found out without importing them."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name))


def _one_module(value: Any) -> Any:
    """The ``tvm.IRModule`` that `value` is, or one that holds the function `value`; a single one is called main."""
    if _is_of(value, "tvm", "IRModule"):
        functions = {each.name_hint: function for each, function in value.functions.items()}
        name, only = next(iter(functions.items())) if len(functions) == 1 else ("main", value)
        # Traces name their function, which is always main in TVM's searches.
        return _one_module(only) if name != "main" and _is_of(only, "tvm.tirx", "PrimFunc") else value
    if _is_of(value, "tvm.tirx", "PrimFunc"):
        from costhub.dataset.workload import module_of

        return module_of(value)
    advice = "Give a name, a file, a torch.export.ExportedProgram, a tvm.IRModule or a PrimFunc."
    if _is_of(value, "torch.nn", "Module"):
        advice = "Export it first: torch.export.export(network.eval(), (example_input,))."
    raise WorkloadError(f"An object of the class {type(value).__name__} cannot be tuned. {advice}")


def _is_relax(mod: Any) -> bool:
    return any(_is_of(function, "tvm.relax", "Function") for function in mod.functions.values())


def _function_name(value: Any) -> str:
    """The name of a function, or of a module's only function; `workload` if that says nothing."""
    functions = list(value.functions.values()) if _is_of(value, "tvm", "IRModule") else [value]
    symbol = str((functions[0].attrs or {}).get("global_symbol", "main")) if len(functions) == 1 else "main"
    return "workload" if symbol == "main" else symbol


def _file_of(name: str | None, saved: list[str]) -> str:
    """What the file of a network in memory is called, which is added to `saved`.

    Raises:
        WorkloadError: Another network is called the same, or the name cannot be that of a file.
    """
    file = name or "network"
    if Path(file).name != file or file.startswith(".") or not file.isprintable() or len(file.encode()) > _MOST_NAME:
        raise WorkloadError(
            f"{file!r:.99} cannot name a network in memory, because its file gets that name. Use at most {_MOST_NAME} "
            "bytes of printable characters, without /, and do not begin with a dot."
        )
    if file in _OWN_STEMS:
        raise WorkloadError(
            f"{file!r} cannot name a network in memory: the results have a file of that name. Choose another name."
        )
    if file in saved:
        raise WorkloadError(f"Two networks in memory are called {file}: pass a dictionary that names each.")
    saved.append(file)
    return file


def _saved_program(program: Any, out: Path, name: str) -> str:
    import torch

    out.mkdir(parents=True, exist_ok=True)
    # Under its own name, which torch writes into the file; then it replaces whatever lies in its place.
    path = out / f"{name}{_TORCH}"
    with FolderLock(out), tempfile.TemporaryDirectory(prefix=".saved-", dir=out) as place:
        saved = Path(place, path.name)
        torch.export.save(program, saved)
        saved.replace(path)
    return str(path)


def _saved_module(mod: Any, out: Path, name: str) -> str:
    import tvm

    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}{_RELAX}"
    with FolderLock(out):
        write_replacing(path, tvm.ir.save_json(mod).encode())
    return str(path)


def check_names(workloads: Sequence[str], networks: Sequence[str], devices: Sequence[str] = ()) -> None:
    """Refuses what does not exist, before TVM or torch is imported.

    Args:
        workloads: Suites, workloads, or files with a module (.json).
        networks: Networks by name or file.
        devices: Devices of this machine, or `auto`; none for boards.

    Raises:
        CosthubError: One of its subclasses: there is no such workload, network, file or device, or a file is wrong.
    """
    from costhub.collector.device.local import find_local
    from costhub.collector.workloads.network_kernels import name_networks
    from costhub.collector.workloads.suites import find_suites

    for name in workloads:
        if Path(name).suffix != _RELAX:
            _check_known(name, find_suites)
        elif not Path(name).is_file():
            raise WorkloadError(f"The file {name} does not exist. Write it with tvm.ir.save_json, or name a workload.")
        elif _NODES not in read_regular(name, limit=_MOST_WORKLOAD_BYTES, error=WorkloadError):
            raise WorkloadError(f"{name} is not a TVM module in JSON. Write one with tvm.ir.save_json(module).")
    for network in networks:
        _check_known(network, name_networks)
        if Path(network).suffix == _TORCH:
            check_exported(network)
    name_networks(networks)
    named = [device for device in devices if device != "auto"]
    if named:
        find_local(named)


def _check_known(name: str, find: Callable[[Sequence[str]], object]) -> None:
    """Refuses an unknown name; one that looks like a file gets a sentence about files."""
    try:
        find([name])
    except UnknownNameError:
        if is_meant_as_file(name):
            raise wrong_file(name) from None
        if os.path.isfile(f"{name}{_TORCH}"):
            raise WorkloadError(
                f"There is no workload or network named {name!r}, but a file {name}{_TORCH}: give that as the network."
            ) from None
        raise


def named_workloads(
    suites: Sequence[str], networks: Sequence[str], target: Mapping[str, Any], lowering: Lowering | None = None
) -> list[WorkloadSpec]:
    """The workloads of suites and networks by name; a kernel that two of them contain occurs twice.

    Raises:
        CosthubError: As for `Subjects.specs`.
    """
    from costhub.collector.workloads.network_kernels import network_workloads
    from costhub.collector.workloads.network_source import AS_IN_TORCH
    from costhub.collector.workloads.suites import find_suites

    found: list[WorkloadSpec] = list(find_suites(suites))
    if networks:
        lowered, text = lowering or AS_IN_TORCH, json.dumps(target)
        lowered.check(text, networks)
        found += network_workloads(networks, target=text, lowering=lowered, on_network=report_network)
    return found


def named_jobs(text: str) -> list[Job]:
    """The workloads that `text` names: a single one, all of a suite, or the one in a file.

    Raises:
        WorkloadError: The file does not hold a TVM module.
        UnknownNameError: No workload has that name.
    """
    from costhub.collector.workloads.suites import find_suites
    from costhub.search.options import Job

    path = Path(text)
    if path.suffix != _RELAX:
        return [Job(workload.name, workload.module()) for workload in find_suites([text])]
    return [Job(path.stem, _module_in(path))]


def _module_in(path: Path) -> Any:
    """The module in a file, which a child process has read first: TVM crashes on nodes that form a cycle."""
    from costhub.dataset.workload import check_module_text, module_from_json
    from costhub.isolation.child import ChildDied, ChildTimeout
    from costhub.isolation.tvm_children import tvm_child

    try:
        text = read_regular(path, limit=_MOST_WORKLOAD_BYTES, error=WorkloadError).decode("utf-8")
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{path} is not a text file. A workload file holds a TVM module as JSON.") from error
    try:
        with tvm_child() as child:
            child.call(check_module_text, text, timeout_s=_READ_S)
    except (ChildDied, ChildTimeout) as error:
        raise WorkloadError(
            f"{path} cannot be read: TVM crashed on it, or took more than {_READ_S:g} s. Write it with "
            "tvm.ir.save_json(module)."
        ) from error
    return module_from_json(text)
