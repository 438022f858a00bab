"""Groups of commands whose modules are imported only when one of them runs."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from costhub.cli.shared.interaction import interruptible
from costhub.errors import CosthubError


class LazyCommands(click.Group):
    """Commands by the names of their modules.

    Args:
        package: The package of the modules.
        modules: Command -> module below the package, which offers a click command named `main`.
        summary: What the help of the group says first.
    """

    def __init__(self, package: str, modules: Mapping[str, str], summary: str) -> None:
        super().__init__(help=summary)
        self.modules = {command: f"{package}.{module}" for command, module in modules.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the table, then those that were added."""
        return [*self.modules, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the module of a command and returns the command."""
        if cmd_name not in self.modules:
            return super().get_command(ctx, cmd_name)
        command = import_module(self.modules[cmd_name]).main
        assert isinstance(command, click.Command), f"{self.modules[cmd_name]}.main is not a command."
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; an error of costhub is a sentence.

        SIGTERM and a closing terminal interrupt it as ^C does, so that what it has started is ended.
        """
        try:
            with interruptible():
                return super().invoke(ctx)
        except CosthubError as error:
            raise click.ClickException(str(error)) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands with the first lines of their modules, which are read and not imported."""
        with formatter.section("Commands"):
            lines = [(command, _first_line(module)) for command, module in self.modules.items()]
            lines += [(name, command.get_short_help_str(100)) for name, command in self.commands.items()]
            formatter.write_dl(lines)


def _first_line(module: str) -> str:
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None, f"There is no module {module}."  # noqa: PT018
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]
