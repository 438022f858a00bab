from __future__ import annotations

import errno
import inspect
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

from costhub import __version__, errors
from costhub.cli import main
from costhub.cli.main import EXIT_CODES, GROUPS, VERBS, run
from costhub.cli.shared.choices import DecimalNumber, WholeNumber
from costhub.errors import CosthubError, DataError, MeasureError

SRC = Path(__file__).parents[2] / "src"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes `costhub pull` fail with an error, as a verb would."""

    def install(error: BaseException) -> None:
        @click.command("pull")
        def command() -> None:
            raise error

        monkeypatch.setattr("costhub.cli.pull.command", command)

    return install


def test_help_lists_every_verb_without_importing_one() -> None:
    code = (
        "import sys; from costhub.cli.main import run; run(['--help']);"
        "print(sorted(m for m in sys.modules if m.startswith('costhub.cli.')))"
    )
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)

    assert [verb for verb in VERBS if f"\n  {verb} " not in done.stdout] == []
    assert done.stdout.splitlines()[-1] == str(
        [
            "costhub.cli.main",
            "costhub.cli.shared",
            "costhub.cli.shared.groups",
            "costhub.cli.shared.interaction",
        ]
    )


def test_help_groups_the_verbs_by_what_people_come_for_and_tune_is_first(costhub: Any) -> None:
    done = costhub("--help")

    places = [done.out.index(f"\n{title}:\n  ") for title in GROUPS]
    assert places == sorted(places)
    assert done.out.index("\n  tune ") < min(done.out.index(f"\n  {verb} ") for verb in VERBS if verb != "tune")


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        ((), "Usage: costhub [OPTIONS] COMMAND"),
        (("tune",), "Usage: costhub tune [OPTIONS]"),
        (("board",), "Usage: costhub board [OPTIONS]"),
        (("board", "serve"), "Usage: costhub board serve [OPTIONS]"),
    ],
)
def test_the_word_help_shows_the_help(costhub: Any, words: tuple[str, ...], usage: str) -> None:
    done = costhub("help", *words)

    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(usage)
    assert done.out.split("Example:")[1:]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["help", "tunne"], "There is no command named 'tunne'. Did you mean tune?"),
        (["help", "board", "server"], "There is no command named 'server'. Did you mean serve?"),
        (["board", "tunnel"], "There is no command named 'tunnel'. The commands are list, serve, tracker."),
        (["help", "tune", "now"], "costhub tune has no command 'now'."),
    ],
)
def test_help_of_what_there_is_not_is_refused(costhub: Any, words: list[str], sentence: str) -> None:
    done = costhub(*words)

    assert (done.code, done.out) == (2, "")
    assert sentence in done.err


def sub_commands() -> list[tuple[str, ...]]:
    """The words of every command that runs, such as (board, serve)."""
    found: list[tuple[str, ...]] = []
    for verb, (module, _) in VERBS.items():
        command = import_module(module).command
        nested = sorted(command.commands) if isinstance(command, click.Group) else []
        found += [(verb, name) for name in nested] or [(verb,)]
    return found


@pytest.mark.parametrize("words", sub_commands(), ids=" ".join)
def test_every_command_has_an_example_json_and_speaks_in_the_imperative(words: tuple[str, ...], costhub: Any) -> None:
    done = costhub(*words, "--help")

    assert f"costhub {' '.join(words)}" in done.out.split("Example:")[1]
    assert "--json" in done.out
    first = done.out.split("\n\n")[1].strip().split()[0]
    assert re.fullmatch("[A-Z][a-z]+[^s]", first), f"{first} is not an imperative"


@pytest.mark.parametrize("words", sub_commands(), ids=" ".join)
def test_every_number_of_a_command_is_refused_in_our_words(words: tuple[str, ...]) -> None:
    command: click.Command = import_module(VERBS[words[0]][0]).command
    for word in words[1:]:
        assert isinstance(command, click.Group)
        command = command.commands[word]

    kinds = {param.name: param.type for param in command.params if param.type.name.startswith(("integer", "float"))}
    assert {name for name, kind in kinds.items() if not isinstance(kind, WholeNumber | DecimalNumber)} == set()


@pytest.mark.parametrize("verb", VERBS)
def test_the_line_of_a_verb_begins_as_its_help_does(verb: str, costhub: Any) -> None:
    word = VERBS[verb][1].split()[0]

    assert costhub(verb, "--help").out.split("\n\n")[1].split()[0] == word


def test_the_command_line_completes_verbs_and_choices() -> None:
    def completed(*words: str) -> list[str]:
        env = {
            "PYTHONPATH": str(SRC),
            "_COSTHUB_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
        code = "from costhub.cli.main import main; main()"
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert completed("costhub", "tu") == ["tune"]
    assert completed("costhub", "tune", "--method", "fr") == ["frozen"]


def test_version(costhub: Any) -> None:
    assert costhub("--version").out == costhub("version").out == f"costhub, version {__version__}\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [(CosthubError("It broke."), 1), (DataError("It is no data."), 2), (MeasureError("No."), 1)],
)
def test_an_error_is_one_sentence_with_its_own_code(costhub: Any, failing: Any, error: Any, code: int) -> None:
    failing(error)

    done = costhub("pull")

    assert (done.code, done.out, done.err) == (code, "", f"costhub: {error}\n")


@pytest.mark.parametrize(
    ("number", "code", "sentence"),
    [
        (errno.ENOSPC, 1, "/data/x: No space left on device. The disk is full: free some space"),
        (errno.EACCES, 1, "/data/x: Permission denied. Permission to read or write is missing"),
        (errno.ENOENT, 2, "/data/x: No such file or directory. Check the path."),
        (errno.EIO, 1, "/data/x: Input/output error. Run it again with `costhub --debug`"),
    ],
)
def test_an_error_of_the_system_is_a_sentence_with_advice(
    costhub: Any, failing: Any, number: int, code: int, sentence: str
) -> None:
    failing(OSError(number, os.strerror(number), "/data/x"))

    done = costhub("pull")

    assert done.code == code
    assert done.err.startswith(f"costhub: {sentence}")
    assert len(done.err.splitlines()) == 1


def test_an_error_of_a_library_without_a_number_is_a_sentence(costhub: Any, failing: Any) -> None:
    failing(OSError("Couldn't deserialize thrift"))

    assert costhub("pull").err.startswith("costhub: Couldn't deserialize thrift. Run it again")


def test_interrupting_is_said_with_the_code_of_the_shell(costhub: Any, failing: Any) -> None:
    failing(KeyboardInterrupt())

    done = costhub("pull")

    assert done.code == 130
    assert done.err.strip() == "costhub: stopped; everything finished so far is kept."


def test_a_bug_names_its_place_and_asks_for_a_report(costhub: Any, failing: Any) -> None:
    failing(ZeroDivisionError("division by zero"))

    done = costhub("pull")

    assert done.code == 1
    assert "this is a bug in costhub (ZeroDivisionError at " in done.err
    assert "costhub --debug" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), DataError("x"), OSError(errno.EACCES, "no")])
def test_debug_shows_the_traceback(failing: Any, error: Exception) -> None:
    failing(error)

    with pytest.raises(type(error)) as caught:
        run(["--debug", "pull"])

    assert caught.value is error


def test_running_out_of_memory_is_a_sentence(costhub: Any, failing: Any) -> None:
    failing(MemoryError())

    assert costhub("pull").err.startswith("costhub: out of memory.")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["pulll"], "There is no command named 'pulll'. Did you mean pull or publish? `costhub --help`"),
        (["zzz"], "There is no command named 'zzz'. The commands are tune, compile, estimate,"),
        (["pull"], "Missing argument 'NAME'. `costhub pull --help` shows its usage."),
        (["pull", "a", "--frobnicate"], "No such option '--frobnicate'. `costhub pull --help` shows"),
        (["--frobnicate"], "No such option '--frobnicate'. `costhub --help` shows"),
        (["tune", "a", "--trails", "5"], "No such option '--trails'. Did you mean --trials-per-workload? `costhub"),
        (["collect", "--seed", "x"], "'x' is not a whole number; write one of at least 0. `costhub collect"),
    ],
)
def test_a_mistake_in_the_command_line_is_a_sentence(costhub: Any, arguments: list[str], sentence: str) -> None:
    done = costhub(*arguments)

    assert done.code == 2
    assert done.err.startswith("costhub: ")
    assert sentence in done.err
    assert len(done.err.splitlines()) == 1


def test_no_arguments_show_the_help(costhub: Any) -> None:
    done = costhub()

    assert done.code == 2
    assert "\nUse:\n  tune " in done.out + done.err


def test_a_verb_may_leave_with_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command("pull")
    @click.pass_context
    def command(ctx: click.Context) -> None:
        ctx.exit(7)

    monkeypatch.setattr("costhub.cli.pull.command", command)

    assert run(["pull"]) == 7


def test_main_exits_with_the_code(failing: Any) -> None:
    failing(DataError("It is no data."))

    with pytest.raises(SystemExit) as caught:
        main.main(["pull"])

    assert caught.value.code == 2


def test_a_reader_that_stops_reading_is_no_failure_worth_words() -> None:
    code = "from costhub.cli.main import main; main(['devices', '--json'])"
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)

    assert done.stderr == ""


def test_every_error_has_an_exit_code_that_has_a_meaning() -> None:
    kinds = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, CosthubError)}

    assert {kind.exit_code for kind in kinds} | {0, main.INTERRUPTED} == set(EXIT_CODES)


def test_a_sentence_has_nothing_that_a_terminal_obeys(costhub: Any, failing: Any) -> None:
    failing(CosthubError("\x1b]0;owned\x07caf\xe9 \u202egpj is not a folder."))

    done = costhub("pull")

    assert done.err == "costhub: ?]0;owned?caf\xe9 ?gpj is not a folder.\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_every_verb_ends_in_order_when_it_is_told_to(
    costhub: Any, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    cleaned: list[bool] = []
    # A test run in the background may ignore hangups, and then its commands do, too.
    before = signal.signal(number, signal.SIG_DFL)

    @click.command("pull")
    def command() -> None:
        try:
            os.kill(os.getpid(), number)
        finally:
            cleaned.append(True)

    monkeypatch.setattr("costhub.cli.pull.command", command)

    try:
        output = costhub("pull")
        after = signal.getsignal(number)
    finally:
        signal.signal(number, before)

    assert (output.code, cleaned, after) == (130, [True], signal.SIG_DFL)
    assert "stopped" in output.err


def test_another_thread_than_the_first_one_may_run_a_command(costhub: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(costhub, "version").result().code == 0
