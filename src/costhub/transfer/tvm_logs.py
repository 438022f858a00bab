"""Provides tvm_logs_in_files: MetaSchedule's logs go to its work folder, and its console stays ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

ROOT = "tvm.s_tir.meta_schedule"


@contextmanager
def tvm_logs_in_files() -> Iterator[None]:
    """Lets MetaSchedule write its log files, but only errors to stdout, which is where results go.

    TVM adds a console and a file handler to one global logger at every search and never closes them; the next
    search in the same process stumbles over handlers that have no name. So the logger starts without handlers
    and ends without.

    Example:
        >>> with tvm_logs_in_files():
        ...     logging.getLogger(ROOT).level == logging.ERROR
        True
    """
    logger = logging.getLogger(ROOT)
    before, level, propagate = list(logger.handlers), logger.level, logger.propagate
    logger.handlers.clear()
    # The level at which TVM configures its console is that of the logger when the search begins.
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name in [ROOT, *(n for n in logging.root.manager.loggerDict if n.startswith(f"{ROOT}."))]:
            _close_handlers(logging.getLogger(name))
        logger.handlers[:] = before
        logger.setLevel(level)
        logger.propagate = propagate


def _close_handlers(logger: logging.Logger) -> None:
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
