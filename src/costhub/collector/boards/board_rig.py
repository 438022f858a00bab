"""Provides board_rig: all that measures programs on the boards of a TVM tracker, set up and taken down."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager

from costhub.collector.bench import Made
from costhub.collector.boards.boards import Boards
from costhub.collector.boards.tracker import address_of
from costhub.collector.builder import Builder
from costhub.collector.evaluator import Evaluator
from costhub.collector.outcome import Outcome, Surroundings
from costhub.collector.rig import Rig, Rights
from costhub.collector.row import Session


class BoardBench:
    """Boards of one kind, which share the programs of a batch.

    Builds go on meanwhile: they run on this machine, and the programs on others.

    Args:
        boards: Where the programs run.
        device_id: What the boards are.
    """

    def __init__(self, boards: Boards, device_id: str) -> None:
        self._boards = boards
        self._device_id = device_id
        self._numbers: dict[str, int] = {}

    def launch(self) -> None:
        """Nothing: sessions begin with the first programs."""

    def measure(self, batch: Sequence[Made]) -> Generator[Outcome, None, None]:
        """Yields outcomes in the order in which boards give them."""
        runnable = [made for made in batch if made.built.artifact is not None]
        programs = [(str(made.built.artifact), made.program.arguments) for made in runnable]
        try:
            for made in batch:
                if made.built.artifact is None:
                    around = Surroundings(None, None, None)
                    yield Outcome(made.program, made.built, None, around, self._device_id)
            with closing(self._boards.run_each(programs)) as outcomes:
                for place, ran in outcomes:
                    made, around = (
                        runnable[place],
                        Surroundings(None, None, ran.reference_drift, ran.reference_after_s),
                    )
                    board = self._number(ran.board)
                    yield Outcome(made.program, made.built, ran, around, self._device_id, board)
        finally:
            for made in batch:
                made.built.remove()

    def _number(self, address: str | None) -> str | None:
        """Stands for a board in the rows: its address would reveal details of a private network."""
        return None if address is None else str(self._numbers.setdefault(address, len(self._numbers) + 1))


@contextmanager
def board_rig(tracker: str, key: str, *, evaluator: Evaluator, rights: Rights) -> Iterator[Rig]:
    """A rig of the boards that a tracker offers under a key; programs are built here, for the boards' target.

    Args:
        tracker: ``HOST:PORT`` of TVM's RPC tracker.
        key: What the boards have registered under.
        evaluator: How latencies are taken.
        rights: Contributor and licence of the rows.

    Raises:
        MeasureError: No tracker answers there, or it has no board under that key.
        DeviceError: The boards cannot say what they are, or are not of one kind.
    """
    host, port = address_of(tracker)
    with Boards(host, port, key, evaluator=evaluator) as boards:
        identity = boards.identify()
        row, target = identity.device, identity.target
        session = Session(
            row["device_id"], target, evaluator, rights.contributor, rights.licence, row.get("driver")
        )
        stored = {**row, "target": json.dumps(target)}
        with Builder(json.dumps(target)) as builder:
            yield Rig((stored,), (session,), builder, BoardBench(boards, row["device_id"]))
