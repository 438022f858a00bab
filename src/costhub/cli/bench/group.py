"""Provides `costhub bench`: benchmarks of strategies and cost models that need no device."""

from __future__ import annotations

import click

from costhub.cli.bench import search
from costhub.cli.shared.groups import NamingGroup

EXAMPLE = """
\b
Example:
  costhub bench search --strategy model --model auto
  costhub bench search --strategy genetic --device nvidia-v100
"""


@click.group("bench", cls=NamingGroup, epilog=EXAMPLE)
def command() -> None:
    """Score search strategies and cost models on measurements, without a device."""


command.add_command(search.command)
