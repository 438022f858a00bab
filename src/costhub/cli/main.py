"""Provides the `costhub` command: finds the verb, and turns every failure into one sentence."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from traceback import extract_tb

import click

from costhub.errors import CosthubError
from costhub.names import close_names
from costhub.versions import __version__

VERBS: dict[str, tuple[str, str]] = {
    "devices": ("costhub.cli.devices", "List the devices costhub knows and the models for them."),
    "probe": ("costhub.cli.probe", "Identify this device and measure what it can do."),
    "board": ("costhub.cli.board", "Serve this machine as a board that others measure on."),
    "pull": ("costhub.cli.pull", "Fetch a cost model by the name of its device."),
    "collect": ("costhub.cli.collect", "Measure programs on this device into a data folder."),
    "import": ("costhub.cli.import_", "Import measurements made by other tools."),
    "check": ("costhub.cli.check", "Check a data folder against every rule."),
    "stats": ("costhub.cli.stats", "Count what a data folder holds."),
    "contribute": ("costhub.cli.contribute", "Offer measurements to a dataset on a hub."),
    "review": ("costhub.cli.review", "Judge a contribution or a model before a hub accepts it."),
    "publish": ("costhub.cli.publish", "Publish a model or a dataset to a hub."),
    "site": ("costhub.cli.site", "Build a static site of what a hub holds."),
    "export": ("costhub.cli.export", "Write measurements in the formats of other tools."),
    "split": ("costhub.cli.split", "Divide workloads into those to train and to test on."),
    "train": ("costhub.cli.train", "Train a cost model on a data folder."),
    "evaluate": ("costhub.cli.evaluate", "Score a cost model on a data folder."),
    "card": ("costhub.cli.card", "Write the card of a cost model."),
    "adapt": ("costhub.cli.adapt", "Carry a cost model over to another device."),
    "tune": ("costhub.cli.tune", "Search for fast programs of a workload with a cost model."),
}
"""Verb -> its module, which offers a click command named `command`, and its line in the help.

The line is kept here so that `costhub --help` does not import the verbs, some of which load tvm or torch.
"""

INTERRUPTED = 130
"""128 + SIGINT: what a shell reports for a program that ^C ended."""

_ADVICE = {
    errno.ENOSPC: "The disk is full: free some space or choose another folder, then run the command again.",
    errno.EDQUOT: "Your quota is used up: free some space or choose another folder, then run it again.",
    errno.EACCES: "Permission to read or write is missing: choose another folder or change its permissions.",
    errno.EPERM: "Permission to read or write is missing: choose another folder or change its permissions.",
    errno.EROFS: "That file system is read-only: choose another folder.",
    errno.ENOENT: "Check the path.",
    errno.ENOTDIR: "Check the path.",
    errno.EISDIR: "Check the path.",
    errno.EMFILE: "Too many files are open: raise the limit with `ulimit -n`.",
}


@dataclass
class GroupOptions:
    """The options of the group, for the code around it."""

    debug: bool = False


class LazyGroup(click.Group):
    """A group that imports the module of a verb only to run the verb or to show its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order in which people need them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the verb's module and returns its command."""
        if cmd_name not in VERBS:
            return None
        command = import_module(VERBS[cmd_name][0]).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{VERBS[cmd_name][0]}.command is {command!r}, expected a click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the verb; refuses an unknown one and lists the close ones."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            close = close_names(args[0], list(VERBS), most=2)
            hint = f"Did you mean {' or '.join(close)}?" if close else f"The commands are {', '.join(VERBS)}."
            ctx.fail(f"There is no command named {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes one line per verb."""
        with formatter.section("Commands"):
            formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExample:\n  costhub tune --help\n  costhub pull nvidia-h200",
)
@click.version_option(__version__, prog_name="costhub")
@click.option("--debug", is_flag=True, help="Show the traceback of a failure.")
@click.pass_context
def group(context: click.Context, debug: bool) -> None:
    """Pretrained cost models for TVM MetaSchedule, and the measurements they learn from."""
    from costhub.cli.shared.interaction import messages_on_stderr

    context.obj.debug = debug
    context.with_resource(messages_on_stderr())


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits: 0 done, 130 stopped on request, else the exit code of the error.

    Args:
        arguments: What follows `costhub`; by default what the process was started with.
    """
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code; a failure is one sentence on stderr."""
    session = GroupOptions()
    try:
        args = None if arguments is None else list(arguments)
        result = group.main(args=args, prog_name="costhub", standalone_mode=False, obj=session)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _print_failure(_usage_sentence(error), error.exit_code)
    except BaseException as error:
        if session.debug and not isinstance(error, SystemExit | click.Abort):
            raise
        return _explain(error)
    # Without standalone mode click returns the code of ctx.exit(), or what the verb returned, which is None.
    return result if isinstance(result, int) else 0


def _explain(error: BaseException) -> int:
    """Writes the sentence for a failure and returns its exit code."""
    if isinstance(error, SystemExit):
        raise error
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return _print_failure("stopped; everything finished so far is kept.", INTERRUPTED)
    if isinstance(error, CosthubError):
        return _print_failure(str(error), error.exit_code)
    if isinstance(error, OSError):
        return _print_failure(_os_sentence(error), 1)
    if isinstance(error, MemoryError):
        return _print_failure("out of memory. Use less data at once, or a machine with more memory.", 1)
    return _print_failure(_bug_sentence(error), 1)


def _usage_sentence(error: click.ClickException) -> str:
    """Click's own message, and how to show the help of the command."""
    message = error.format_message().rstrip()
    context = error.ctx if isinstance(error, click.UsageError) else None
    help_hint = f" `{context.command_path} --help` shows its usage." if context else ""
    return message + ("" if message.endswith((".", "?", "!")) else ".") + help_hint


def _os_sentence(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename is not None else ""
    what = error.strerror or str(error) or type(error).__name__
    advice = _ADVICE.get(error.errno or 0, "Run it again with `costhub --debug` to see where.")
    return f"{where}{what}. {advice}"


def _bug_sentence(error: BaseException) -> str:
    frames = [f for f in extract_tb(error.__traceback__) if "costhub" in Path(f.filename).parts]
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    text = str(error).strip().splitlines()
    what = f"{type(error).__name__}{place}" + (f": {text[0]}" if text else "")
    return f"this is a bug in costhub ({what}). Report it with the traceback that `costhub --debug` shows."


def _print_failure(sentence: str, exit_code: int) -> int:
    click.echo(f"costhub: {sentence}", err=True)
    return exit_code
