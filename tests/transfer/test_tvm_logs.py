"""TVM's loggers: configured by TVM during a search, gone after it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from costhub.transfer.tvm_logs import ROOT, tvm_logs_in_files


def test_several_searches_in_one_process_log_to_files_and_not_to_stdout(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from tvm.s_tir.meta_schedule.logging import get_loggers_from_work_dir

    before = list(logging.getLogger(ROOT).handlers)
    for name in ("a", "b"):
        with tvm_logs_in_files():
            (logger,) = get_loggers_from_work_dir(str(tmp_path / name), [name])
            logger.info("a detail")
            logging.getLogger(ROOT).warning("a warning")
        assert any("a detail" in p.read_text() for p in (tmp_path / name / "logs").iterdir())
    assert capfd.readouterr().out == ""
    assert logging.getLogger(ROOT).handlers == before


def test_the_users_own_handlers_come_back() -> None:
    mine = logging.NullHandler()
    logging.getLogger(ROOT).addHandler(mine)
    try:
        with tvm_logs_in_files():
            assert logging.getLogger(ROOT).handlers == []
        assert mine in logging.getLogger(ROOT).handlers
    finally:
        logging.getLogger(ROOT).removeHandler(mine)
