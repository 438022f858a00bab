"""Provides workloads and targets as text: modules to JSON and back, their ids and rows in the workloads table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from costhub.errors import WorkloadError, last_line


def module_to_json(mod: Any) -> str:
    """Returns the module (``tvm.IRModule``) as TVM's own JSON."""
    import tvm

    return str(tvm.ir.save_json(mod))


def module_from_json(text: str) -> Any:
    """Returns the ``tvm.IRModule`` in `text`.

    Raises:
        WorkloadError: `text` is not the JSON of a module with one function named ``main``.
    """
    import tvm

    try:
        mod = tvm.ir.load_json(text)
    except Exception as error:
        raise WorkloadError(
            f"The text is not a TVM module in JSON ({last_line(error)}). Write it with "
            f"tvm.ir.save_json(module) in TVM {tvm.__version__}."
        ) from error
    if isinstance(mod, tvm.tirx.PrimFunc):
        mod = module_of(mod)
    if not isinstance(mod, tvm.IRModule) or "main" not in [g.name_hint for g in mod.get_global_vars()]:
        raise WorkloadError("The JSON does not hold a module with a function named 'main', which a workload must be.")
    return mod


def module_of(function: Any) -> Any:
    """A function (``tvm.tirx.PrimFunc``) as a workload, in the form that TVM's own operators have.

    The function is called main and marked as having arguments that do not overlap (``tirx.noalias``).
    `_normalize_mod` in TVM's ``tune_context.py`` does the same to a function, so its records are found under this
    workload.
    """
    import tvm

    return tvm.IRModule({"main": function.with_attr({"global_symbol": "main", "tirx.noalias": True})})


def check_module_text(text: str) -> None:
    """Rejects what `module_from_json` rejects; for a child process, which a hostile text may crash.

    Raises:
        WorkloadError: `text` is not the JSON of a module with one function named ``main``.
    """
    module_from_json(text)


def workload_id(mod: Any) -> str:
    """Returns 64 hex digits that identify the workload: the sha256 of its normalised TVMScript.

    TVM's structural hash changes between versions and processes; the printed script, with its variable names
    unchanged and without trailing whitespace, does not.
    """
    lines = [line.rstrip() for line in mod.script(show_meta=False).splitlines()]
    # The header's imports and comments depend on the version of TVM, not on the workload.
    body = [line for line in lines if line and not line.startswith(("#", "from ", "import "))]
    return hashlib.sha256("\n".join(body).encode()).hexdigest()


def argument_shapes(mod: Any) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Returns (dtype, shape) of each argument of the module's function, as its caller must pass them.

    If a schedule changed the layout of weights, these are the new shapes.

    Raises:
        WorkloadError: An argument is not a tensor, or one of its extents is not a number.
    """
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo

    try:
        infos = ArgInfo.from_entry_func(mod, remove_preproc=True)
        return tuple((str(i.dtype), tuple(int(extent) for extent in i.shape)) for i in infos)
    except Exception as error:
        raise WorkloadError(
            "The arguments of a workload must be tensors of known sizes, and these are not "
            f"({last_line(error)}); bind its sizes to numbers first."
        ) from error


def check_schedulable(mod: Any) -> None:
    """Rejects a module that a search cannot schedule.

    Raises:
        WorkloadError: It has arguments of unknown size, or no block that a schedule could transform.
    """
    import tvm

    argument_shapes(mod)
    try:
        schedule = tvm.s_tir.Schedule(mod, error_render_level="none")
        blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    except Exception:
        blocks = []
    if not blocks:
        raise WorkloadError("TVM cannot schedule this workload: it has no block, so its design space is empty.")


def workload_row(mod: Any, *, name: str, operator: str, networks: Sequence[tuple[str, float]] = ()) -> dict[str, Any]:
    """Describes a workload; `bytes` counts all its arguments.

    Args:
        mod: The workload (``tvm.IRModule``).
        name: A readable name.
        operator: Its operator family.
        networks: Networks that use it, and how often each uses it.

    Raises:
        WorkloadError: An argument is not a tensor of known size, or TVM cannot count the operations.
    """
    arguments = argument_shapes(mod)
    return {
        "workload_id": workload_id(mod),
        "name": name,
        "operator": operator,
        "shapes": json.dumps([shape for _, shape in arguments]),
        "dtypes": [dtype for dtype, _ in arguments],
        "flop": count_flop(mod),
        "bytes": float(sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for dtype, shape in arguments)),
        "module_json": module_to_json(mod),
        "networks": [{"name": network, "weight": weight} for network, weight in networks],
    }


def join_networks(
    networks: Sequence[Mapping[str, Any]] | None, others: Sequence[Mapping[str, Any]] | None
) -> list[Mapping[str, Any]]:
    """The networks of two rows of one workload, each once; `others` wins for one that is in both.

    Example:
        >>> join_networks([{"name": "a", "weight": 1.0}], [{"name": "a", "weight": 2.0}, {"name": "b", "weight": 1.0}])
        [{'name': 'a', 'weight': 2.0}, {'name': 'b', 'weight': 1.0}]
    """
    return list({each["name"]: each for each in (*(networks or ()), *(others or ()))}.values())


def count_flop(mod: Any) -> float:
    """The floating-point operations of one run of a workload (``tvm.IRModule``), as TVM counts them.

    Raises:
        WorkloadError: TVM cannot count them, as in a loop whose length depends on another one.
    """
    from tvm.s_tir.analysis import estimate_tir_flops

    try:
        return float(estimate_tir_flops(mod))
    except Exception as error:  # TVM raises errors of several kinds
        raise WorkloadError(f"TVM cannot count the operations of this workload ({last_line(error)}).") from error


def parse_target(target: str) -> Any:
    """Builds the ``tvm.target.Target`` in a JSON text.

    Raises:
        WorkloadError: TVM does not accept it.
    """
    from tvm.target import Target

    try:
        return Target(json.loads(target))
    except Exception as error:
        raise WorkloadError(
            f'TVM does not accept the target {target:.200}; it must be JSON such as {{"kind": "llvm", "num-cores": 2}}.'
        ) from error


LLVM_OPTIONS = "cl-opt"
"""Attribute of a target that sets any option of LLVM for the whole process; TVM crashes on some."""


def sets_llvm_options(target: Any) -> bool:
    """Whether a target, or its host, sets options of LLVM, as none from a file or a stranger may.

    So may a text that begins as JSON does and cannot be read.

    Args:
        target: A TVM target, as parsed from JSON.

    Example:
        >>> sets_llvm_options({"kind": "cuda", "host": {"kind": "llvm", "cl-opt": ["-x"]}})
        True
    """
    return any(text == LLVM_OPTIONS or _is_json(text) for text in target_texts(target))


def why_refused(target: Any) -> str:
    """What a target from a stranger has that must not reach LLVM; empty for any other.

    Example:
        >>> why_refused({"kind": "llvm", "cl-opt": ["-x"]}), why_refused({"kind": "llvm"})
        ('cl-opt: no options of LLVM are taken from a file', '')
    """
    if sets_llvm_options(target):
        return f"{LLVM_OPTIONS}: no options of LLVM are taken from a file"
    # LLVM prints what it does not know.
    return "" if all(text.isprintable() for text in target_texts(target)) else "characters that cannot be printed"


def target_texts(target: Any) -> Iterator[str]:
    """All texts in a target, its keys included, and those in the JSON that TVM reads from a text.

    Example:
        >>> sorted(target_texts({"kind": "cuda", "host": '{"kind": "llvm"}'}))
        ['cuda', 'host', 'kind', 'kind', 'llvm']
    """
    left: list[Any] = [target]
    while left:
        value = left.pop()
        if isinstance(value, str):
            try:
                read = json.loads(value) if _is_json(value) else None
            except (ValueError, RecursionError):  # TVM reads some of what Python refuses
                read = None
            if isinstance(read, dict):
                left.append(read)
            else:
                yield value
        elif isinstance(value, Mapping):
            left += [*value, *value.values()]
        elif isinstance(value, list):
            left += value


def _is_json(text: str) -> bool:
    return text.lstrip().startswith("{")
