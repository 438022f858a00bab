"""Provides `costhub board`: serves this machine to others, over TVM's own tracker and servers."""

from __future__ import annotations

import contextlib
import ipaddress
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from costhub.cli.shared.choices import WholeNumber
from costhub.cli.shared.groups import NamingGroup
from costhub.cli.shared.interaction import interruptible
from costhub.errors import ArgumentError

if TYPE_CHECKING:
    from costhub.collector.boards.server import RunningServer
    from costhub.collector.boards.tracker import Tracker

WARNING = """\
TVM's RPC gives everyone who can reach its port full control of this machine, with the rights of the user who
runs the server: it executes any code that it receives. Nothing is encrypted, and the key is a label, not a
secret. Make the ports reachable only through an SSH tunnel or WireGuard (docs/boards.md)."""

EXAMPLE = """
\b
Example:
  costhub board tracker
  costhub board serve --tracker 127.0.0.1:9190 --key pi4
  costhub board list --tracker 127.0.0.1:9190 --json
"""


SERVE_EXAMPLE = """
\b
Example:
  costhub board serve --tracker 127.0.0.1:9190 --key pi4
  costhub board serve --tracker 127.0.0.1:9190 --key a100 --device cuda
"""
TRACKER_EXAMPLE = """
\b
Example:
  costhub board tracker
  costhub board tracker --port 9191
"""
LIST_EXAMPLE = """
\b
Example:
  costhub board list --tracker 127.0.0.1:9190
"""


class TrackerAddress(click.ParamType["Tracker"]):
    """The address of a tracker, ``HOST:PORT``."""

    name = "host:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Tracker:
        """The tracker at the address `value`."""
        from costhub.collector.boards.tracker import Tracker, address_of

        try:
            return Tracker(*address_of(str(value)))
        except ArgumentError as error:
            self.fail(str(error), param, ctx)


def _where_to_listen(port: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options of the commands that listen."""
    options = (
        click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on."),
        click.option(
            "--port",
            metavar="PORT",
            default=port,
            show_default=True,
            type=WholeNumber(1, 65535),
            help="Port to listen on.",
        ),
        click.option(
            "--i-trust-this-network",
            "is_trusted",
            is_flag=True,
            help="Allow an address that other machines can reach.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print the address as JSON."),
    )

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


tracker_option = click.option(
    "--tracker", required=True, type=TrackerAddress(), help="The tracker, HOST:PORT.", metavar="HOST:PORT"
)


@click.group("board", cls=NamingGroup, epilog=EXAMPLE)
def command() -> None:
    """Serve this machine as a board that others measure on, over TVM's own RPC tracker and servers."""


@command.command("serve", epilog=SERVE_EXAMPLE)
@tracker_option
@click.option("--key", metavar="KEY", required=True, help="A label that all boards of one kind share; not a secret.")
@click.option(
    "--device",
    "device_kind",
    default="cpu",
    show_default=True,
    type=click.Choice(["cpu", "cuda"]),
    help="What to offer: the CPU, or the GPU (never tried on one).",
)
@_where_to_listen(9090)
def serve(tracker: Tracker, key: str, device_kind: str, host: str, port: int, is_trusted: bool, as_json: bool) -> None:
    """Offer this machine to a tracker until Ctrl-C."""
    from costhub.collector.boards.server import board_server

    _check_host(host, is_trusted)
    server = board_server(tracker, key, host=host, port=port, device_kind=device_kind, complete=_with_figures)
    with _until_interrupted(), server as running:
        device_id = running.identity["device"]["device_id"] if running.identity else None
        facts = {"device": device_id, "key": key, "host": host, "port": port}
        where = f"{host}:{port} to the tracker at {tracker.host}:{tracker.port}"
        sentence = f"Serving {device_id} as {key!r} on {where}; press Ctrl-C to stop."
        _print_and_wait(running, json.dumps(facts) if as_json else sentence)


@command.command("tracker", epilog=TRACKER_EXAMPLE)
@_where_to_listen(9190)
def track(host: str, port: int, is_trusted: bool, as_json: bool) -> None:
    """Run a TVM tracker for boards to register with, until Ctrl-C."""
    from costhub.collector.boards.server import tracker_server

    _check_host(host, is_trusted)
    with _until_interrupted(), tracker_server(host=host, port=port) as running:
        facts = {"host": host, "port": port}
        sentence = f"Tracking boards on {host}:{port}; press Ctrl-C to stop."
        _print_and_wait(running, json.dumps(facts) if as_json else sentence)


@command.command("list", epilog=LIST_EXAMPLE)
@tracker_option
@click.option("--json", "as_json", is_flag=True, help="Print the boards as JSON.")
def show(tracker: Tracker, as_json: bool) -> None:
    """List the boards that are registered with a tracker."""
    servers = tracker.servers()
    if as_json:
        click.echo(json.dumps([{"board": s.name, "key": s.key} for s in servers]))
        return
    for key in sorted({s.key for s in servers}):
        names = [s.name for s in servers if s.key == key]
        click.echo(f"{key}: {len(names)} registered, {tracker.free(key)} free")
        click.echo("\n".join(f"  {name}" for name in names))
    if not servers:
        click.echo("No board is registered. Run `costhub board serve` on a board to register it.")


def _with_figures(row: dict[str, Any]) -> dict[str, Any]:
    """The board's row with the figures that only `costhub probe` on the board knows; others have the index as well."""
    from costhub.collector.device.local import probe_command
    from costhub.hub.catalogue.devices import complete_device_row, find_device

    known = complete_device_row(row)
    device = find_device(str(row["device_id"]))
    indexed = device.row() if device else {}
    if known.get("peak_gflops") is None:
        click.echo(
            f"{row['device_id']} has not been probed, so models that use a device's figures get the average of others: "
            f"run `{probe_command(row)}` (25 s) on this board, then serve it again.",
            err=True,
        )
    found = {name: value for name, value in known.items() if row.get(name) is None and indexed.get(name) is None}
    return {**row, **found}


def _check_host(host: str, is_trusted: bool) -> None:
    """Warns, and refuses an address that other machines can reach unless the user trusts the network."""
    if not is_trusted and not _is_loopback(host):
        raise click.UsageError(
            f"{host} can be reached from other machines. Listen on 127.0.0.1 and use a tunnel, or add "
            "--i-trust-this-network if everyone on that network may control this machine.",
            click.get_current_context(),
        )
    click.echo(WARNING, err=True)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


@contextlib.contextmanager
def _until_interrupted() -> Iterator[None]:
    """Treats ^C and SIGTERM, the usual ends of a server, as success."""
    with contextlib.suppress(KeyboardInterrupt), interruptible():
        yield


def _print_and_wait(running: RunningServer, said: str) -> None:
    click.echo(said)
    running.wait()
