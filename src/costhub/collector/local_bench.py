"""Provides LocalBench: the devices of this machine, on which built programs are timed one by one."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack

from costhub.collector.bench import Made
from costhub.collector.builder import Builder
from costhub.collector.outcome import Outcome, Surroundings
from costhub.collector.runner import Runner
from costhub.collector.watch import Watch


class LocalBench:
    """One machine's devices, such as its CPU with one thread and with all, that run the same built programs.

    Nothing else of ours computes while a program is timed: the builder and the other runners are frozen.

    Args:
        runners: By device id.
        builder: What to freeze.
    """

    def __init__(self, runners: Mapping[str, Runner], builder: Builder) -> None:
        self._watches = {device_id: Watch(runner) for device_id, runner in runners.items()}
        self._builder = builder

    def launch(self) -> None:
        """Starts the runners without waiting for them."""
        for watch in self._watches.values():
            watch.runner.launch()

    def measure(self, batch: Sequence[Made]) -> Generator[Outcome, None, None]:
        """Yields the outcomes of all programs on the first device, then on the next."""
        try:
            with self._builder.frozen():
                for device_id, watch in self._watches.items():
                    yield from self._measure_on(device_id, watch, batch)
        finally:
            for made in batch:
                made.built.remove()

    def _measure_on(
        self, device_id: str, watch: Watch, batch: Sequence[Made]
    ) -> Generator[Outcome, None, None]:
        with ExitStack() as others:
            for other in self._watches.values():
                if other.runner is not watch.runner:
                    others.enter_context(other.runner.frozen())
            around = watch.look()
            for made in batch:
                yield _outcome(made, device_id, watch, around)


def _outcome(made: Made, device_id: str, watch: Watch, around: Surroundings) -> Outcome:
    if made.built.artifact is None:
        return Outcome(made.program, made.built, None, around, device_id)
    if made.expected is not None:
        program, artifact = made.expected
        watch.runner.expected(artifact, program.arguments, reduction=program.reduction)
    check = made.expected is not None
    ran, around = watch.run(
        made.built.artifact,
        made.program.arguments,
        check=check,
        module_json=made.program.module_json if check else None,
    )
    return Outcome(made.program, made.built, ran, around, device_id)
