"""Provides ChildPool: child processes in which a crash or hang only costs one piece of work."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from costhub.errors import MeasureError
from costhub.isolation.child import Child, ChildDied, ChildTimeout
from costhub.isolation.limits import Limits, usable_cpus

MOST_CHILDREN = 16
"""Limit for a pool without a given size: more would not be faster, and each takes memory."""
# Generous: a busy machine may need minutes for something that takes a second when it is idle.
_CALL_TIMEOUT_S = 180.0
_NOTHING_TIMEOUT_S = 180.0
_PIECE_TIMEOUT_S = 30.0

CRASHED, TOO_LONG, STARVED = "crashed", "took too long", "had too little of the processor"
"""Why a call is lost. One that had less than half of its time on a processor says nothing about itself: on an idle
machine it may end in time."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class LostCall:
    """Replaces the result of a call that crashed its child, or did not end in time."""

    why: str
    """One of `CRASHED`, `TOO_LONG` and `STARVED`."""


def default_size() -> int:
    """One child for each CPU that this process may use, at most `MOST_CHILDREN`."""
    return min(len(usable_cpus()), MOST_CHILDREN)


class ChildPool:
    """A few children, for work that may crash them; any number of threads may use it.

    A child starts when there is work for it, unless `launch` starts them all.

    Args:
        size: Number of children; by default `default_size`.
        prepare: Called first in every child, as in `Child`.
        environment: As for `Child`.
        limits: As for `Child`; memory for a call is at most a share of the machine's.
        is_shared: As for `Child`.
        most_calls: As for `Child`.

    Example:
        >>> def pieces(_):
        ...     return [({},), ({"n": 2},), ({"exit": 1},)]
        >>> with ChildPool(1) as pool:
        ...     list(pool.map(echo, [({"n": 1},), ({"exit": 1},)], pieces=pieces))
        [[{'n': 1}], [{'n': 2}, LostCall(why='crashed')]]
    """

    def __init__(
        self,
        size: int | None = None,
        *,
        prepare: Callable[[], object] | None = None,
        environment: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        is_shared: bool = True,
        most_calls: int | None = None,
    ) -> None:
        self.size = size or default_size()
        self._new_child = partial(
            Child,
            prepare=prepare,
            environment=environment,
            limits=limits and limits.among(self.size),
            is_shared=is_shared,
            most_calls=most_calls,
        )
        self._children: list[Child] = []
        self._free: list[Child] = []
        self._changed = threading.Condition()
        self._is_frozen = self._is_closed = False
        self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="costhub-pool")

    def __enter__(self) -> ChildPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        """The process ids of the children that have started."""
        return [child.pid for child in self._children if child.pid is not None]

    def launch(self) -> None:
        """Starts all children without waiting for them, so that they import in parallel."""
        with self._changed:
            while len(self._children) < self.size:
                self._free.append(self._added())
            for child in self._free:
                child.launch()

    def close(self) -> None:
        """Ends the children immediately, whatever they are doing; running calls are lost, waiting ones cancelled."""
        with self._changed:
            self._is_closed, self._is_frozen = True, False
            self._changed.notify_all()
        for child in self._children:
            child.close()
        self._threads.shutdown(cancel_futures=True)

    def kill(self) -> None:
        """Ends the children immediately; they restart with their next calls."""
        for child in self._children:
            child.kill()

    @contextlib.contextmanager
    def child(self) -> Iterator[Child]:
        """Yields a child for exclusive use, ready for a call.

        Raises:
            MeasureError: It cannot be started, or the pool was closed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._free or len(self._children) < self.size or self._is_closed)
            if self._is_closed:
                raise MeasureError("The child processes were ended while work waited for one of them.")
            # The most recently used child is running; a new one is the last resort.
            child = self._free.pop() if self._free else self._added()
        try:
            self._start(child)
            yield child
        finally:
            with self._changed:
                self._free.append(child)
                self._changed.notify_all()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Suspends the children, even in the middle of a call, while the block runs."""
        with self._changed:
            self._is_frozen = True
            for child in self._children:
                child.freeze()
        try:
            yield
        finally:
            with self._changed:
                self._is_frozen = False
                for child in self._children:
                    child.thaw()
                self._changed.notify_all()

    def submit(self, work: Callable[..., Result], *args: Any) -> Future[Result]:
        """Runs `work(child, *args)` in a thread, after everything submitted earlier.

        The future raises the same errors as `child`.
        """
        return self._threads.submit(self._with_child, work, args)

    def call(self, function: Callable[..., Result], *args: Any) -> Result | LostCall:
        """Returns the result of one call; `LostCall` if it crashes its child."""
        with self.child() as child:
            return self._try(child, function, args, _CALL_TIMEOUT_S)

    def map(
        self,
        function: Callable[..., Result],
        calls: Iterable[tuple[Any, ...]],
        *,
        pieces: Callable[[tuple[Any, ...]], Sequence[tuple[Any, ...]]],
    ) -> Iterator[list[Result | LostCall]]:
        """Calls a function, in order; at most two calls per child are in progress.

        Args:
            function: The function to call.
            calls: The arguments of each call, taken as they are needed.
            pieces: Splits a call into pieces that are tried one by one if the whole call crashes a child.
                The first one asks for nothing: if even that is lost, the others are not tried.

        Yields:
            For each call a list with its result, or with the results of all its pieces but the first: each of
            them is `LostCall` if the first is.
        """
        under_way: deque[Future[list[Result | LostCall]]] = deque()
        try:
            for args in calls:
                if self._is_closed:
                    return
                under_way.append(self.submit(self._whole, function, args, pieces))
                if len(under_way) >= 2 * self.size:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()

    def _added(self) -> Child:
        child = self._new_child()
        self._children.append(child)
        return child

    def _start(self, child: Child) -> None:
        with self._changed:  # a process starting while others are timed would disturb them
            self._changed.wait_for(lambda: not self._is_frozen)
            if self._is_closed:
                raise MeasureError("The child processes were ended while work waited for one of them.")
            child.launch()
        child.start()

    def _with_child(self, work: Callable[..., Result], args: tuple[Any, ...]) -> Result:
        with self.child() as child:
            return work(child, *args)

    def _whole(
        self,
        child: Child,
        function: Callable[..., Result],
        args: tuple[Any, ...],
        pieces: Callable[[tuple[Any, ...]], Sequence[tuple[Any, ...]]],
    ) -> list[Result | LostCall]:
        result = self._try(child, function, args, _CALL_TIMEOUT_S)
        if not isinstance(result, LostCall):
            return [result]
        nothing, *work = pieces(args)
        result = self._try(child, function, nothing, _NOTHING_TIMEOUT_S)
        if isinstance(result, LostCall):
            return [result] * len(work)
        return [self._try(child, function, piece, _PIECE_TIMEOUT_S) for piece in work]

    def _try(
        self, child: Child, function: Callable[..., Result], args: tuple[Any, ...], timeout_s: float
    ) -> Result | LostCall:
        before_s = child.cpu_s
        try:
            return child.call(function, *args, timeout_s=timeout_s)
        except ChildTimeout as error:
            # A new process begins at 0.
            used_s = error.cpu_s - (before_s if before_s <= error.cpu_s else 0.0)
            return LostCall(TOO_LONG if used_s >= timeout_s / 2 else STARVED)
        except ChildDied:
            return LostCall(CRASHED)
        except MeasureError:
            if self._is_closed:  # it was killed during start-up
                return LostCall(CRASHED)
            raise


def echo(value: Any) -> Any:
    """Returns its argument; for examples and tests."""
    if isinstance(value, dict) and "sleep_s" in value:
        time.sleep(value["sleep_s"])
    if isinstance(value, dict) and "exit" in value:
        os._exit(int(value["exit"]))
    return value
