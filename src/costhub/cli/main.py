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

from costhub.cli.shared.groups import NamingGroup, no_such_option
from costhub.cli.shared.interaction import interruptible
from costhub.errors import CosthubError
from costhub.terminal_text import for_stream, shown
from costhub.versions import __version__

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Use": {
        "tune": ("costhub.cli.tune", "Search for fast kernels with a cost model."),
        "compile": ("costhub.cli.compile", "Compile with known or predicted schedules, without measuring."),
        "estimate": ("costhub.cli.estimate", "Estimate how long kernels and networks take, without measuring."),
        "pull": ("costhub.cli.pull", "Fetch a cost model by the name of its device."),
        "lock": ("costhub.cli.lock", "Pin the models and datasets of a project by revision and hash."),
        "devices": ("costhub.cli.devices", "List the devices costhub knows and the models for them."),
    },
    "Measure": {
        "probe": ("costhub.cli.probe", "Identify this device and measure what it can do."),
        "collect": ("costhub.cli.collect", "Measure programs on this device into a data folder."),
        "board": ("costhub.cli.board", "Serve this machine as a board that others measure on."),
    },
    "Data": {
        "stats": ("costhub.cli.stats", "Count what is in a data folder."),
        "check": ("costhub.cli.check", "Check a data folder against every rule."),
        "split": ("costhub.cli.split", "Make splits: workloads to train on and to test on."),
        "import": ("costhub.cli.exchange.import_", "Import measurements made by other tools."),
        "export": ("costhub.cli.exchange.export", "Write measurements in the formats of other tools."),
        "doctor": ("costhub.cli.exchange.doctor", "Examine a folder written by a TVM search, and repair it."),
        "merge": ("costhub.cli.exchange.merge", "Join the folders of several TVM searches."),
    },
    "Models": {
        "train": ("costhub.cli.train", "Train a cost model on measurements."),
        "evaluate": ("costhub.cli.evaluate", "Score a cost model on measurements."),
        "bench": ("costhub.cli.bench.group", "Score strategies and models on measurements, without a device."),
        "adapt": ("costhub.cli.adapt", "Adapt a cost model to another device."),
        "card": ("costhub.cli.card", "Write the card of a cost model."),
    },
    "Share": {
        "contribute": ("costhub.cli.publishing.contribute", "Offer measurements to a dataset on a hub."),
        "publish": ("costhub.cli.publishing.publish", "Publish a model or a dataset to a hub."),
        "review": ("costhub.cli.publishing.review", "Judge a contribution or a model before a hub accepts it."),
        "site": ("costhub.cli.publishing.site", "Build a static site of what a hub holds."),
    },
}
"""What people come for -> verb -> its module, which offers a click command named `command`, and its line in the help.

The lines are kept here so that `costhub --help` does not import the verbs.
"""

VERBS = {verb: entry for verbs in GROUPS.values() for verb, entry in verbs.items()}
"""Every verb, in the order of the help."""

INTERRUPTED = 130
"""128 + SIGINT: what a shell reports for a program that ^C ended."""

EXIT_CODES = {
    0: "Done.",
    1: "The work itself failed: a build, a measurement, a hub, the disk, a bug. Or the verdict is negative: "
    "`check` or `doctor` found errors, `review` refused, there was no terminal on which to confirm sending.",
    2: "The command, a name or an input is wrong: an unknown option, device, model, workload or split, a missing or "
    "damaged file or folder, a device that this machine lacks. Nothing was measured.",
    INTERRUPTED: "Interrupted with Ctrl-C or SIGTERM. Everything finished so far is kept.",
}
"""Exit code -> its meaning, the same for all verbs."""

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


_WRONG_PATH = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)
"""What the system says where the input is wrong, rather than the machine in trouble."""


@dataclass
class GroupOptions:
    """The options of the group, for the code around it."""

    debug: bool = False


class LazyGroup(NamingGroup):
    """A group that imports the module of a verb only to run the verb or to show its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order in which people need them, then the commands of this module."""
        return [*VERBS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the verb's module and returns its command."""
        if cmd_name not in VERBS:
            return super().get_command(ctx, cmd_name)
        command = import_module(VERBS[cmd_name][0]).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{VERBS[cmd_name][0]}.command is {command!r}, expected a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes one line per verb, by what people come for."""
        for title, verbs in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(verb.ljust(_WIDTH), line) for verb, (_, line) in verbs.items()])


_WIDTH = max(map(len, VERBS))
"""Of the first column, the same in all groups."""


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExample:\n  costhub tune resnet18.c7 --out tuned/\n  costhub help tune",
)
@click.version_option(__version__, prog_name="costhub")
@click.option("--debug", is_flag=True, help="Show the traceback of a failure.")
@click.pass_context
def group(context: click.Context, debug: bool) -> None:
    """Pretrained cost models for TVM MetaSchedule, and the measurements they learn from."""
    from costhub.cli.shared.interaction import messages_on_stderr

    context.obj.debug = debug
    context.with_resource(messages_on_stderr())


@group.command("help", epilog="\b\nExample:\n  costhub help tune\n  costhub help board serve")
@click.argument("words", nargs=-1, metavar="[VERB]...")
@click.pass_context
def help_command(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a verb, or of costhub."""
    shown = context.parent or context
    for word in words:
        if not isinstance(shown.command, click.Group):
            raise click.UsageError(f"{shown.command_path} has no command {word!r}.", shown)
        name, command, _ = shown.command.resolve_command(shown, [word])
        if command is not None:
            shown = click.Context(command, info_name=name, parent=shown)
    click.echo(shown.get_help())


@group.command("version")
def version_command() -> None:
    """Print the version."""
    click.echo(f"costhub, version {__version__}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits, with one of `EXIT_CODES`.

    Args:
        arguments: What follows `costhub`; by default what the process was started with.
    """
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code; a failure is one sentence on stderr."""
    session = GroupOptions()
    try:
        args = None if arguments is None else list(arguments)
        with interruptible():
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
        kept = str(error) if isinstance(error, click.Abort) else ""
        return _print_failure(f"stopped; {kept or 'everything finished so far is kept'}.", INTERRUPTED)
    if isinstance(error, CosthubError):
        return _print_failure(str(error), error.exit_code)
    if isinstance(error, OSError):
        return _print_failure(_os_sentence(error), 2 if error.errno in _WRONG_PATH else 1)
    if isinstance(error, MemoryError):
        return _print_failure("out of memory. Use less data at once, or a machine with more memory.", 1)
    return _print_failure(_bug_sentence(error), 1)


def _usage_sentence(error: click.ClickException) -> str:
    """The message, mostly click's own, and how to show the help of the command."""
    message = no_such_option(error) if isinstance(error, click.NoSuchOption) else error.format_message().rstrip()
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
    message = f"costhub: {shown(sentence)}"  # names of files and packages are those of strangers
    click.echo(for_stream(message, sys.stderr), err=True)
    return exit_code
