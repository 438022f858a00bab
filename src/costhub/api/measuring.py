"""Provides open_measurer: builds and measures on a named device of this machine, or on boards elsewhere."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from costhub.collector.workloads.zoo.networks import NETWORKS
from costhub.errors import AmbiguousNameError, ArgumentError, CosthubError, DeviceError, UnknownNameError

if TYPE_CHECKING:
    from costhub.api.subjects import Subjects
    from costhub.collector.measurer import Measurer
    from costhub.collector.run.evaluator import Evaluator
    from costhub.dataset.folder import DataFolder

log = logging.getLogger("costhub")
OptionsT = TypeVar("OptionsT")


@dataclass(frozen=True)
class BoardsAt:
    """The boards that a TVM RPC tracker offers under a key, as `device` of `costhub.tune` and `costhub.collect`.

    Raises:
        ArgumentError: The address of the tracker is not HOST:PORT.

    Example:
        >>> BoardsAt("127.0.0.1:9190", key="pi4").key
        'pi4'
    """

    tracker: str
    """HOST:PORT."""
    key: str
    """The key that the boards registered under."""

    def __post_init__(self) -> None:
        from costhub.collector.boards.tracker import address_of

        address_of(self.tracker)


Where: TypeAlias = "str | BoardsAt | Measurer"
"""`auto` (this machine's CPU), another device of this machine, boards, or an open measurer."""


@contextmanager
def open_measurer(where: Where | Sequence[str], *, evaluator: Evaluator | None = None) -> Iterator[Measurer]:
    """Opens a measurer for devices of this machine, or for the boards of a tracker.

    Args:
        where: One device, or several that share builds. An open measurer is left open.
        evaluator: How latencies are measured; by default as TVM does it. An open measurer keeps its own.

    Raises:
        DeviceError: No device is named, this machine has no such device, or the boards cannot be identified.
        MeasureError: No tracker answers, or it has no such board.
    """
    from costhub.collector.device.local import find_local
    from costhub.collector.measurer import Measurer, board_measurer, local_measurer

    if isinstance(where, Measurer):
        yield where
    elif isinstance(where, BoardsAt):
        with board_measurer(where.tracker, where.key, evaluator=evaluator) as on_boards:
            yield on_boards
    else:
        devices = local_devices(where)
        if not devices:
            raise DeviceError("There is no device to measure on: name at least one, or auto.")
        warn_if_busy()
        with local_measurer(find_local(devices), evaluator=evaluator) as here:
            yield here


def local_devices(where: Where | Sequence[str]) -> list[str]:
    """The devices of this machine that `where` names, aliases in full; none for boards or an open measurer.

    Example:
        >>> local_devices("auto"), local_devices(BoardsAt("127.0.0.1:9190", "pi4"))
        (['auto'], [])
    """
    if isinstance(where, str):
        return [_in_full(where)]
    return [_in_full(each) for each in where] if isinstance(where, list | tuple) else []


def one_device(where: Any) -> Where:
    """The only device in `where`, which may be a list, as for `costhub.collect`; refuses none or several."""
    devices = where if isinstance(where, list | tuple) else [where]
    if len(devices) != 1:
        raise ArgumentError(
            f"A search is for exactly one device, and {len(devices)} were given. For several devices, call tune once "
            "for each, with a folder of its own."
        )
    found: Where = devices[0]
    return found


def _in_full(name: str) -> str:
    """The id of a device of this machine for which an alias stands; any other name as it is, so that errors show it."""
    from costhub.collector.device.local import local_kind
    from costhub.hub.catalogue.names import resolve_device

    if local_kind(name) is not None:
        return name
    try:
        found = resolve_device(name).device_id
    except (UnknownNameError, AmbiguousNameError):
        return name
    return found if local_kind(found) is not None else name


def check_boards(where: Where | Sequence[str]) -> None:
    """Checks that the boards' tracker answers, before TVM is loaded; does nothing for other devices.

    Says so if it knows no board yet: the wait for one is long and silent.

    Raises:
        MeasureError: No tracker answers.
    """
    if isinstance(where, BoardsAt):
        from costhub.collector.boards.tracker import Tracker, address_of

        if not Tracker(*address_of(where.tracker)).servers(where.key):
            log.warning(
                "The tracker at %s has no board under the key %r yet; `costhub board list` shows what it has. Waiting "
                "two minutes for one: `costhub board serve` starts it.",
                where.tracker,
                where.key,
            )


def check_limits(trials: int | None, *, least: int = 1, budget_s: float = 0.0) -> None:
    """Refuses limits under which nothing can be measured, before TVM is loaded.

    Args:
        trials: How many programs; None if that is left open.
        least: The fewest that are allowed.
        budget_s: How many seconds.

    Raises:
        ArgumentError: `trials` is no whole number or less than `least`, or `budget_s` is no number, negative or NaN.

    Example:
        >>> check_limits(16, budget_s=90.0)
    """
    if not _is_a(trials, (Integral, type(None))):
        raise ArgumentError(f"trials={trials!r:.60} is not a whole number: give one of at least {least}.")
    if trials is not None and trials < least:
        raise ArgumentError(f"trials={trials} is too few: give a whole number of at least {least}.")
    if not (_is_a(budget_s, Real) and budget_s >= 0):  # nor NaN
        raise ArgumentError(f"budget_s={budget_s} is not a time: give a number of seconds, 0 or more.")


def _is_a(value: object, kind: type | tuple[type, ...]) -> bool:
    """`isinstance` of what a user gave, whose type is not sure to be the annotated one."""
    return isinstance(value, kind)


def options_given(options: OptionsT | None, kind: type[OptionsT]) -> OptionsT:
    """The options of a function, or their defaults.

    Args:
        options: What the user gave.
        kind: Their class.

    Raises:
        ArgumentError: They are something else, such as a dictionary.
    """
    if options is not None and not isinstance(options, kind):
        raise ArgumentError(
            f"options is a {type(options).__name__}, and costhub.{kind.__name__} was expected: costhub."
            f"{kind.__name__}(NAME=VALUE, ...)."
        )
    return options or kind()


def call_text(function: str, subjects: Subjects, out: Path, named: Mapping[str, Any], options: Any) -> str:
    """The Python call that repeats a search or a compilation, for its report.

    What a text cannot give, such as a model in memory, stands by the name of its parameter.

    Args:
        function: Its name.
        subjects: What it is about; a network in memory stands by the file that it was written to.
        out: The folder of the results.
        named: Further arguments.
        options: The dataclass of options; those at their defaults are left out.

    Example:
        >>> import costhub
        >>> from costhub.api.subjects import Subjects
        >>> named, options = {"trials": 16, "model": object()}, costhub.TuneOptions(stop="never")
        >>> call_text("tune", Subjects(("softmax",)), Path("tuned"), named, options)
        "costhub.tune('softmax', 'tuned', trials=16, model=model, options=costhub.TuneOptions(stop='never'))"
    """
    names = [*(f"{name}.*" if name in NETWORKS else name for name in subjects.workloads), *subjects.networks]
    what = "what" if subjects.modules else repr(names[0] if len(names) == 1 else names)
    shown = [what, repr(os.fspath(out)), *(_argument(name, _plain(value)) for name, value in named.items())]
    changed = [
        _argument(field.name, value)
        for field in fields(options)
        if field.name != "command" and (value := _plain(getattr(options, field.name))) != field.default
    ]
    if changed:
        shown.append(f"options=costhub.{type(options).__name__}({', '.join(changed)})")
    return f"costhub.{function}({', '.join(shown)})"


def _plain(value: Any) -> Any:
    """A value as a text can give it: paths as texts, lists as tuples."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _argument(name: str, value: Any) -> str:
    """An argument with a plain value, in a call."""
    if isinstance(value, BoardsAt):
        return f"{name}=costhub.{value!r}"
    return f"{name}={value!r}" if isinstance(value, str | bool | int | float | tuple) else f"{name}={name}"


def check_space(space: str | None, devices: Sequence[str]) -> None:
    """Refuses a design space for all kernels that cannot be loaded or does not fit, before anything is measured.

    Args:
        space: Its name, as for `costhub.collector.propose.spaces.find_space`, which imports a module of the user's;
            None if costhub chooses.
        devices: The devices of this machine that run the kernels, if they are known.

    Raises:
        UnknownNameError: Nothing has that name.
        WorkloadError: The user's module cannot be imported, or the space is for another kind of device.

    Example:
        >>> check_space("vnni", ["auto"])
    """
    if space is None:
        return
    from costhub.collector.device.local import local_kind
    from costhub.collector.propose.spaces import find_space

    found = find_space(space)
    for kind in filter(None, map(local_kind, devices)):
        found.check_kind("llvm" if kind == "cpu" else kind)


def warn_if_busy() -> bool:
    """Warns of noisy latencies, and returns True, if more processes want to run than there are cores."""
    load, cores = load_average(), os.cpu_count() or 1
    if load > cores:
        log.warning(
            "Other programs are running here (load average %.1f, %d cores): latencies will be noisy, and "
            "`costhub check` may refuse them.",
            load,
            cores,
        )
    return load > cores


def load_average() -> float:
    """The load average of the last minute."""
    return os.getloadavg()[0]


def folder_of(out: Path, measurer: Measurer) -> DataFolder:
    """The data folder `out`, created if it is missing, with a row for each device of the measurer.

    The figures of `costhub probe` come along: a board's from the board, others from the cache of this machine.
    """
    from costhub.dataset.folder import DataFolder

    folder = DataFolder.create(out)
    for device in measurer.devices:
        figures = _figures_of(device.device_id) if measurer.boards is None else {}
        put_device(folder, {**device.stored_row, **figures})
    return folder


def _figures_of(device_id: str) -> dict[str, Any]:
    """What `costhub probe` found out about a device of this machine; nothing if the cache cannot be read."""
    from costhub.dataset.schema import PROBED
    from costhub.hub.catalogue.devices import probed_figures

    try:
        found = probed_figures(device_id)
        probed_at = datetime.fromisoformat(found["probed_at"])  # JSON has no times
    except (CosthubError, OSError, LookupError, TypeError, ValueError):
        return {}
    known = {name: found[name] for name in PROBED if found.get(name) is not None}
    return {**known, "probed_at": probed_at}


def put_device(folder: DataFolder, row: Mapping[str, Any]) -> None:
    """Adds the row of a device to a folder; a row that is there and has not been probed gets the figures of a probe.

    Args:
        folder: The data folder.
        row: The row of the devices table.
    """
    from costhub.dataset.schema import PROBED

    known = {each["device_id"]: each for each in folder.devices().to_pylist()}
    before = known.get(row["device_id"])
    if before is None:
        folder.put_device(row)
    elif before.get("probed_at") is None and row.get("probed_at") is not None:
        folder.put_device({**before, **{name: row[name] for name in PROBED if name in row}})
