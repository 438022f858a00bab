"""Provides NamingGroup and no_such_option: an unknown command or option is answered with the close ones."""

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


def no_such_option(error: click.NoSuchOption) -> str:
    """The sentence on an unknown option, with the close ones among those that the help shows.

    A hidden option is an old spelling, which the visible one begins with: `--trials` of `--trials-per-workload`.

    Args:
        error: What click raised.
    """
    context = error.ctx
    options = [] if context is None else context.command.get_params(context)
    names = {
        name.lstrip("-"): not option.hidden
        for option in options
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
        if name.startswith("--")
    }
    close = close_names(error.option_name.lstrip("-"), list(names), most=2)
    meant = [
        f"--{name}"
        for name, is_shown in names.items()
        if is_shown and any(name == each or (not names[each] and name.startswith(each)) for each in close)
    ]
    return f"{error.message} Did you mean {either(meant)}?" if meant else error.message
