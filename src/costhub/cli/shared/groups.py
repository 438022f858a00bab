"""Provides NamingGroup: a group of commands that answers an unknown name with the close ones."""

from __future__ import annotations

import click

from costhub.errors import either
from costhub.names import close_names


class NamingGroup(click.Group):
    """A group that refuses an unknown command in one sentence, with the names that it may have meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            close = close_names(args[0], names, most=2)
            hint = f"Did you mean {either(close)}?" if close else f"The commands are {', '.join(names)}."
            ctx.fail(f"There is no command named {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)
