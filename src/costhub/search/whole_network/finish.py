"""Provides finish_network: from a searched database to a checked, timed library of the whole network."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from costhub.collector.boards.boards import Boards
from costhub.collector.device.cpu_state import core_count
from costhub.collector.workloads.network_kernels import COMPILE_TIMEOUT_S
from costhub.collector.workloads.network_source import AS_IN_TORCH, BF16, FLOAT32, PLAIN, RELAX, Lowering
from costhub.errors import DeviceError, MeasureError, NetworkError, last_line
from costhub.isolation.child import Child, ChildDied, ChildTimeout
from costhub.isolation.limits import Limits
from costhub.search.result import OTHER, StageTimer
from costhub.search.whole_network.compile import BuiltNetwork, CompiledNetwork, build_network, build_untuned
from costhub.search.whole_network.engines import ENGINES, load_engines
from costhub.search.whole_network.network_outputs import (
    BF16_TOLERANCE,
    GPU_TOLERANCE,
    TOLERANCE,
    compare_outputs,
    rms_error,
    widest_tolerance,
)
from costhub.search.whole_network.network_timer import BoardNetworkTimer, Latency, NetworkTimer, board_network_timer

TUNED, UNTUNED, TORCH, TORCH_COMPILE = "tuned", "untuned", "torch", "torch.compile"
CHECKING, TIMING = "checking", "timing"
"""Stages: loading every form of a network and comparing what they compute, and timing them."""
AnyNetworkTimer: TypeAlias = NetworkTimer | BoardNetworkTimer


@dataclass(frozen=True)
class FinishedNetwork:
    """A network after a search."""

    network: str
    """Its name in reports."""
    threads: int
    """Of TVM, and of torch where it is timed; on a GPU, of torch where it computes on the CPU."""
    error: str | None = None
    """A sentence if it cannot be compiled, does not run or computes something else."""
    library: str | None = None
    """The file to load; None if there is an error."""
    reference: str = TORCH
    """The form whose outputs are taken as correct: torch's, or the untuned form of a relax file."""
    tolerance: float = TOLERANCE
    inputs: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """(dtype, shape) of each input."""
    fast_math: bool = False
    """Whether exp, tanh and erf are polynomials in the tuned form."""
    device_kind: str = "cpu"
    """TVM's name for the kind of device, ``cpu`` or ``cuda``."""
    layout: str = PLAIN
    """Of its convolutions: blocked or plain."""
    precision: str = FLOAT32
    """What its convolutions and dense layers multiply: float32 or bf16; in matrix units, products of two activations,
    too."""
    error_size: float | None = None
    """How far its outputs are from those of the reference (`rms_error`); None if they were not compared."""
    kernels: int = 0
    """Distinct kernels."""
    kernels_tuned: int = 0
    """Those with a schedule from the database."""
    latencies: dict[str, Latency] = field(default_factory=dict)
    """Form -> latency: `TUNED`, and those of the other forms that were timed."""
    notes: tuple[str, ...] = ()
    """Sentences about what did not work but does no harm."""
    stages: dict[str, float] = field(default_factory=dict)
    """Stage -> seconds, in the order in which they were spent."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def finish_network(
    network: str,
    *,
    label: str,
    target: str,
    database: Path,
    out: Path,
    lowering: Lowering = AS_IN_TORCH,
    beside: Collection[str] = (),
    boards: Boards | None = None,
    on_step: Callable[[str], None] | None = None,
) -> FinishedNetwork:
    """Compiles a network with a database, compares its outputs with torch's, and times it.

    All of it happens in child processes: a crash of TVM or torch becomes a sentence. On this machine, networks of torch
    are timed in torch as well. The untuned form is compiled where there is nothing else to compare with (for a relax
    file, on a board, on a GPU that torch may not know), and otherwise only if outputs differ: its plain loops on a CPU
    take seconds a call.

    Args:
        network: What `costhub.collector.workloads.network_source.read_network` takes.
        label: Its name in reports and that of the library.
        target: The TVM target of the search, as JSON; the ``num-cores`` of a CPU are the number of threads.
        database: The folder of the search's MetaSchedule database.
        out: Where the library ``<label>.so`` goes.
        lowering: As in the search (`costhub.collector.workloads.network_kernels.network_workloads`).
        beside: Further forms to time: `UNTUNED`, `TORCH_COMPILE`, which takes a minute or so, and, for a network of
            torch on this machine's CPU, `ENGINES`, whose packages are installed.
        boards: Where it runs, except torch; they may be closed, since a new session is opened. None for this machine.
        on_step: Called with each step, in a few words.

    Raises:
        MeasureError: A child process does not start.
    """
    report_step = on_step or (lambda _: None)
    report_step(f"compiling {label}")
    failing = f"The network {label} was tuned, but TVM cannot compile it as a whole"
    is_wanted = UNTUNED in beside or boards is not None or _kind_of(target) != "cpu"
    with (
        _forms(network, target, database, lowering, with_untuned=is_wanted) as forms,
        _launched(forms, runs_here=boards is None) as here,
    ):
        finished, here.inputs = _compiled(forms, label, failing)
        if finished.error is None:
            report_step(f"checking and timing {label}")
            timer = here if boards is None else board_network_timer(here.inputs, boards)
            finished = _timed(finished, timer, forms, boards, beside)
        return _kept(finished, forms, out)


def finish_untimed(
    network: str,
    *,
    label: str,
    target: str,
    database: Path,
    out: Path,
    lowering: Lowering = AS_IN_TORCH,
    runs_here: bool = True,
    on_step: Callable[[str], None] | None = None,
) -> FinishedNetwork:
    """Compiles a network with a database and compares its outputs, like `finish_network`, but times nothing.

    Args:
        network: As for `finish_network`, like the other arguments.
        label: Its name in reports and that of the library.
        target: The TVM target, as JSON.
        database: The folder of the MetaSchedule database.
        out: Where the library ``<label>.so`` goes.
        lowering: How operators are lowered to kernels.
        runs_here: Whether this machine can run the library; a library for another one is only compiled.
        on_step: Called with each step, in a few words.

    Raises:
        MeasureError: A child process does not start.
    """
    report_step, stages = on_step or (lambda _: None), StageTimer()
    report_step(f"compiling {label}")
    with (
        _forms(network, target, database, lowering, is_compared=runs_here) as forms,
        _launched(forms, runs_here=runs_here) as timer,
    ):
        finished, timer.inputs = _compiled(forms, label, f"TVM cannot compile {label} as a whole")
        if finished.error is None and runs_here:
            report_step(f"checking {label}")
            with stages.during(CHECKING), timer:
                finished = _loaded(timer, finished, forms)
            finished = _with_stages(finished, stages)
        elif finished.error is None:
            finished = replace(finished, notes=(f"{label} is for another machine, so it was not run.",))
        return _kept(finished, forms, out)


@dataclass(frozen=True)
class _Forms:
    """The forms of a network that TVM compiles, in a folder of their own."""

    network: str
    target: str
    database: str
    lowering: Lowering
    folder: str
    with_untuned: bool
    """Whether the untuned form is compiled in any case."""

    @property
    def reference(self) -> str:
        """The form whose outputs are taken as correct."""
        return UNTUNED if Path(self.network).suffix == RELAX else TORCH

    @property
    def tuned(self) -> str:
        """The library with the database."""
        return os.path.join(self.folder, f"{TUNED}.so")

    @property
    def untuned(self) -> str:
        """The library without."""
        return os.path.join(self.folder, f"{UNTUNED}.so")

    def build(self) -> BuiltNetwork | str:
        """Compiles the network; a sentence if TVM or torch fails."""
        untuned = self.untuned if self.with_untuned else None
        args = self.network, self.target, self.database
        return _built(partial(build_network, *args, tuned=self.tuned, untuned=untuned, lowering=self.lowering))

    def load_untuned(self, timer: AnyNetworkTimer) -> Any:
        """What the untuned form computes; it is compiled now unless that has been done.

        Raises:
            MeasureError: It cannot be compiled or loaded, or fails.
        """
        if not self.with_untuned:
            built = _built(partial(build_untuned, self.network, self.target, self.untuned))
            if isinstance(built, str):
                raise MeasureError(f"TVM cannot compile it: {built.rstrip('.')}.")
        return timer.load_library(UNTUNED, self.untuned)


@contextmanager
def _forms(
    network: str,
    target: str,
    database: Path,
    lowering: Lowering,
    *,
    with_untuned: bool = False,
    is_compared: bool = True,
) -> Iterator[_Forms]:
    """The forms in a temporary folder; where outputs are compared with the untuned form's, it is compiled, too."""
    with tempfile.TemporaryDirectory(prefix="costhub-network-") as folder:
        forms = _Forms(network, target, os.fspath(database.resolve()), lowering, folder, with_untuned)
        yield replace(forms, with_untuned=with_untuned or (is_compared and forms.reference == UNTUNED))


@contextmanager
def _launched(forms: _Forms, *, runs_here: bool) -> Iterator[NetworkTimer]:
    """A timer without inputs; the processes of the forms that it will load get ready while TVM compiles the network."""
    kind = _kind_of(forms.target)
    with NetworkTimer((), _threads(forms.target), kind) as timer:
        if runs_here and kind == "cpu":
            timer.launch_library(TUNED)
            if forms.reference == TORCH:
                timer.launch_torch(TORCH)
        yield timer


def _threads(target: str) -> int:
    """How many threads compute a network."""
    return int(json.loads(target).get("num-cores") or core_count())


def _compiled(forms: _Forms, label: str, failing: str) -> tuple[FinishedNetwork, tuple[Any, ...]]:
    """Compiles a network.

    Args:
        forms: What is compiled.
        label: As for `finish_network`.
        failing: The beginning of the sentence that says that TVM cannot compile it.

    Returns:
        What is known of the network, and its inputs; an error and none of these if it cannot be compiled.
    """
    kind = _kind_of(forms.target)
    begun = FinishedNetwork(label, _threads(forms.target), device_kind=kind, reference=forms.reference)
    built = forms.build()
    if isinstance(built, str):
        return replace(begun, error=f"{failing}: {built.rstrip('.')}."), ()
    return _described(begun, built, forms.lowering), built.inputs


def _timed(
    finished: FinishedNetwork,
    timing: AbstractContextManager[AnyNetworkTimer],
    forms: _Forms,
    boards: Boards | None,
    beside: Collection[str],
) -> FinishedNetwork:
    """A compiled network, checked and timed."""
    stages = StageTimer()
    try:
        with stages.during(CHECKING), timing as timer:
            finished = _loaded(timer, finished, forms, beside)
            if finished.error is None:  # figures of wrong outputs would say nothing
                with stages.during(TIMING):
                    finished = replace(finished, latencies=timer.measure())
            finished = replace(finished, notes=(*finished.notes, *timer.notes))
    except (MeasureError, DeviceError) as error:  # no board, or one of a different kind
        finished = replace(finished, error=str(error))
    if boards is not None and finished.latencies:
        finished = replace(finished, notes=(f"{finished.network} was run and timed on a board.", *finished.notes))
    return _with_stages(finished, stages)


def _kept(finished: FinishedNetwork, forms: _Forms, out: Path) -> FinishedNetwork:
    """Keeps the tuned library if nothing is wrong with the network; otherwise an earlier search's is removed."""
    library = _library(out, finished.network)
    if finished.error is not None:
        if not library.exists():
            return finished
        library.unlink()  # it has other schedules than the database now
        return replace(finished, notes=(*finished.notes, f"{library.name} of an earlier search was removed."))
    _publish(Path(forms.tuned), library)
    return replace(finished, library=str(library))


def _library(out: Path, label: str) -> Path:
    return out / f"{label}.so"


def _with_stages(finished: FinishedNetwork, stages: StageTimer) -> FinishedNetwork:
    own = {stage: seconds for stage, seconds in stages.seconds().items() if stage != OTHER}
    return replace(finished, stages={**finished.stages, **own})


def _described(begun: FinishedNetwork, built: BuiltNetwork, lowering: Lowering) -> FinishedNetwork:
    """A network that is compiled, but not yet checked or timed."""
    return replace(
        begun,
        inputs=tuple((str(value.dtype), value.shape) for value in built.inputs),
        fast_math=lowering.fast_math,
        layout=lowering.layout,
        precision=lowering.precision,
        kernels=built.compiled.kernels,
        kernels_tuned=built.compiled.tuned,
        stages=built.stages,
    )


def _kind_of(target: str) -> str:
    """TVM's name for the kind of device that a target, as JSON, is for.

    Example:
        >>> _kind_of('{"kind": "llvm"}'), _kind_of('{"kind": "cuda", "arch": "sm_90"}')
        ('cpu', 'cuda')
    """
    kind = str(json.loads(target)["kind"])
    return "cpu" if kind == "llvm" else kind


def _loaded(
    timer: AnyNetworkTimer, finished: FinishedNetwork, forms: _Forms, beside: Collection[str] = ()
) -> FinishedNetwork:
    """Loads all forms; the result holds the error of a form that does not run or is wrong, and notes about others."""
    try:
        finished, reference = _checked(timer, finished, forms)
    except MeasureError as error:
        return replace(finished, error=str(error))
    if finished.reference != TORCH or finished.error is not None:
        return finished
    notes = finished.notes
    if TORCH_COMPILE in beside:
        try:
            timer.load_torch(TORCH_COMPILE, forms.network, compiled=True)
        except MeasureError as error:
            notes += (f"torch.compile was not timed. {last_line(error)}",)
    engines = [name for name in ENGINES if name in beside]
    if engines and isinstance(timer, NetworkTimer):
        is_bf16 = finished.precision == BF16
        notes += load_engines(timer, engines, forms.network, reference, folder=forms.folder, by_default=is_bf16)
    return replace(finished, notes=notes)


_Built = TypeVar("_Built", BuiltNetwork, CompiledNetwork)


def _built(build: Callable[[], _Built]) -> _Built | str:
    """What was built; a sentence if TVM or torch fails."""
    with Child(limits=Limits.for_network(timeout_s=COMPILE_TIMEOUT_S)) as child:
        try:
            return child.call(build, timeout_s=COMPILE_TIMEOUT_S)
        except (NetworkError, ChildDied, ChildTimeout) as error:
            return str(error)


def _checked(timer: AnyNetworkTimer, finished: FinishedNetwork, forms: _Forms) -> tuple[FinishedNetwork, Any]:
    """The network, with an error if the outputs of the tuned form are not correct within a tolerance, and what is."""
    plain: Any = None
    if forms.with_untuned:
        try:
            plain = forms.load_untuned(timer)
        except MeasureError as failure:
            if forms.reference == UNTUNED:
                raise
            note = f"The untuned form was not timed. {last_line(failure)}"
            finished = replace(finished, notes=(*finished.notes, note))
    fast = timer.load_library(TUNED, forms.tuned)
    reference: Any = plain if forms.reference == UNTUNED else timer.load_torch(TORCH, forms.network)
    finished = replace(finished, tolerance=widest_tolerance(reference), error_size=rms_error(fast, reference))
    mismatch = compare_outputs(fast, reference)
    most = BF16_TOLERANCE if finished.precision == BF16 else GPU_TOLERANCE
    if mismatch and (finished.precision == BF16 or finished.device_kind != "cpu"):
        # Rounded factors: single outputs may be far off where large terms cancel, but not most of them.
        finished = replace(finished, tolerance=most)
        is_close = finished.error_size is not None and finished.error_size <= most
        mismatch = None if is_close else mismatch
    if mismatch is None:
        return finished, reference
    whose = "those of the untuned network" if forms.reference == UNTUNED else "torch's"
    error = (
        f"The outputs of the tuned network {finished.network} are not {whose}: {mismatch} (tolerance "
        f"{finished.tolerance:g} of their size). {_culprit(timer, finished, forms, plain, reference)} No library was "
        "written."
    )
    return replace(finished, error=error), reference


def _culprit(timer: AnyNetworkTimer, finished: FinishedNetwork, forms: _Forms, plain: Any, reference: Any) -> str:
    """Whether schedules make the outputs differ, or TVM itself, in a sentence.

    Args:
        timer: Of the forms.
        finished: The network.
        forms: Its forms.
        plain: What the untuned form computes; None if it has not been loaded.
        reference: What is correct.
    """
    try:
        plain = forms.load_untuned(timer) if plain is None else plain
    except MeasureError as error:
        return f"Whether the untuned network differs as well is not known: {last_line(error).rstrip('.')}."
    if compare_outputs(plain, reference):
        return "The untuned network differs as well, so TVM's importer or compiler causes the difference."
    lowered = " or fast math" * finished.fast_math + " or bfloat16" * (finished.precision == BF16)
    return f"The untuned network agrees, so a schedule of the database{lowered} changes what a kernel computes."


def _publish(source: Path, library: Path) -> None:
    """Moves a library to its place, even from another file system; it never appears incomplete."""
    part = library.with_name(f"{library.name}.part")
    part.unlink(missing_ok=True)  # a link would be written through
    try:
        shutil.copyfile(source, part)
        part.replace(library)
    finally:
        part.unlink(missing_ok=True)  # as large as the network
