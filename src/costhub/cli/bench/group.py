"""Provides `costhub bench`: benchmarks of strategies and cost models that need no device."""

from __future__ import annotations

import click

from costhub.cli.bench import hidden, search
from costhub.cli.shared.groups import NamingGroup

EXAMPLE = """
\b
Example:
  costhub bench search --strategy model --model auto
  costhub bench search --strategy genetic --device nvidia-v100
  costhub bench score mine/ --latencies latencies.csv
"""


@click.group("bench", cls=NamingGroup, epilog=EXAMPLE)
def command() -> None:
    """Score search strategies and cost models on measurements, without a device."""


for _command in (search.command, hidden.hide, hidden.submit, hidden.score):
    command.add_command(_command)
