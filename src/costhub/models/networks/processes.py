"""Provides what the processes of one training run exchange, through torch's own distributed package.

Every function does the obvious thing in a process that trains alone.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch.distributed.nn.functional
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

_PATIENCE = datetime.timedelta(hours=12)  # For the slowest process, which may have to compute features first.


@contextmanager
def joined_processes() -> Iterator[tuple[int, int]]:
    """Joins the other processes that `torchrun` has started, if it started this one.

    Yields:
        The number of this process, and how many there are; (0, 1) for one that is alone.

    Example:
        >>> with joined_processes() as (number, of):
        ...     number, of
        (0, 1)
    """
    if not distributed.is_available() or int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0, 1
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    # gloo also for GPUs: it works between any machines, and gradients of a megabyte need nothing faster.
    distributed.init_process_group("gloo", timeout=_PATIENCE)
    try:
        yield distributed.get_rank(), distributed.get_world_size()
    finally:
        distributed.destroy_process_group()


def process_count() -> int:
    """How many processes train together; 1 for one that is alone."""
    return distributed.get_world_size() if _is_joined() else 1


def data_parallel(network: nn.Module) -> nn.Module:
    """The network, or, if processes are joined, a wrapper that averages the gradients of all of them.

    All begin with the weights of process 0.
    """
    return DistributedDataParallel(network) if _is_joined() else network


def barrier() -> None:
    """Waits until all processes are here."""
    if _is_joined():
        distributed.barrier()


def all_min(number: int) -> int:
    """The smallest of the numbers of all processes."""
    return number if not _is_joined() else int(_reduced(number, distributed.ReduceOp.MIN))


def all_mean(number: float) -> float:
    """The mean of the numbers of all processes, identical in each to the last bit."""
    if not _is_joined():
        return number
    return _reduced(number, distributed.ReduceOp.SUM) / distributed.get_world_size()


def all_gather(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The arrays of all processes one after the other, in the order of the processes.

    Args:
        array: (n, ...) array; n may differ between processes.
    """
    if not _is_joined():
        return array
    mine = torch.from_numpy(np.ascontiguousarray(array))
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(distributed.get_world_size())]
    distributed.all_gather(sizes, torch.tensor([len(array)]))
    # Only equal shapes can be gathered.
    longest = max(int(size) for size in sizes)
    padded = mine.new_zeros(longest, *mine.shape[1:])
    padded[: len(mine)] = mine
    parts = [torch.empty_like(padded) for _ in sizes]
    distributed.all_gather(parts, padded)
    return torch.cat([part[: int(size)] for part, size in zip(parts, sizes, strict=True)]).numpy()


def _is_joined() -> bool:
    return distributed.is_available() and distributed.is_initialized()


def _reduced(number: float, operation: Any) -> float:
    tensor = torch.tensor([number], dtype=torch.float64)
    distributed.all_reduce(tensor, operation)
    return float(tensor)
