"""Runs one scenario by its name: `python -m scripts.bench.security.scenarios NAME WORDS`."""

from __future__ import annotations

import sys
from importlib import import_module

MODULES = {
    **dict.fromkeys(
        (
            *("killed_tune", "signalled", "two_tunes", "two_collections", "killed_train", "full_disk", "read_only"),
            *("bare_environment", "streams", "page_through_link", "personal_data"),
            *("listening", "stranger_at_board", "garbage_at_board"),
        ),
        "moments",
    ),
    **dict.fromkeys(
        ("pulled", "read_remotely", "reviewed", "offered_model", "token_sent_elsewhere", "locked_data"), "hostile_hub"
    ),
    **dict.fromkeys(
        (
            *("killed_adapt", "read_while_collecting", "clock_backwards", "four_pulls", "added_packages"),
            *("poisoned_cache", "swept_links", "tracker_lies", "hub_folder", "site_of_hub", "odd_words"),
        ),
        "neighbours",
    ),
}
"""Scenario -> the module that has it."""

if __name__ == "__main__":
    name, *words = sys.argv[1:]
    getattr(import_module(f"scripts.bench.security.scenarios.{MODULES[name]}"), name)(*words)
