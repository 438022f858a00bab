"""Takes a picture of a page in headless Chromium: any width, light or dark, as a laptop or a phone shows it."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import click

START_S = 60.0


class Browser:
    """One page of a headless browser, spoken to by the Chrome DevTools protocol.

    Args:
        socket: The page's websocket.
    """

    def __init__(self, socket: Any) -> None:
        self._socket, self._numbers = socket, count(1)

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command.

        Raises:
            click.ClickException: The browser refuses it.
        """
        number = next(self._numbers)
        await self._socket.write_message(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(await self._socket.read_message())
            if message.get("id") == number:
                if "error" in message:
                    raise click.ClickException(f"{method}: {message['error']['message']}")
                found: dict[str, Any] = message["result"]
                return found

    async def picture(self, address: str, *, width: int, height: int, scheme: str, scale: float, whole: bool) -> bytes:
        """A PNG of a page: of the window, or of all that can be scrolled to."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
        await self.ask("Emulation.setDeviceMetricsOverride", **metrics)
        await self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        await self.ask("Page.navigate", url=address)
        while (await self.evaluate("document.readyState")) != "complete":
            await asyncio.sleep(0.05)
        if whole:
            await self.evaluate("document.querySelectorAll('img').forEach(i => i.loading = 'eager')")
            await asyncio.sleep(0.3)
        taken = await self.ask("Page.captureScreenshot", captureBeyondViewport=whole)
        return b64decode(taken["data"])

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript on the page."""
        found = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")


@contextmanager
def started() -> Iterator[int]:
    """The port of a browser that has started.

    Raises:
        click.ClickException: There is none, or it does not start.
    """
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        raise click.ClickException("Neither chromium nor google-chrome is installed.")
    with tempfile.TemporaryDirectory(prefix="page-picture-", ignore_cleanup_errors=True) as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0"]
        process = subprocess.Popen(
            [found, *options, f"--user-data-dir={profile}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            yield asyncio.run(_port(Path(profile) / "DevToolsActivePort"))
        finally:
            process.terminate()
            process.wait()


async def _port(file: Path) -> int:
    """The port, which the browser writes to a file of its profile."""
    for _ in range(int(START_S / 0.1)):
        if file.is_file() and "\n" in file.read_text():
            return int(file.read_text().split("\n")[0])
        await asyncio.sleep(0.1)
    raise click.ClickException(f"The browser did not start within {START_S:.0f} s.")


async def take(port: int, address: str, **how: Any) -> bytes:
    """A PNG of a page, see `Browser.picture`."""
    from tornado.httpclient import AsyncHTTPClient
    from tornado.websocket import websocket_connect

    pages = await AsyncHTTPClient().fetch(f"http://127.0.0.1:{port}/json/list")
    page = next(each for each in json.loads(pages.body) if each["type"] == "page")
    socket = await websocket_connect(page["webSocketDebuggerUrl"], max_message_size=1 << 28)
    try:
        return await Browser(socket).picture(address, **how)
    finally:
        socket.close()


@click.command()
@click.argument("page", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--width", default=1280, show_default=True, help="Of the window, in CSS pixels; below 600 as a phone.")
@click.option("--height", default=800, show_default=True)
@click.option("--scheme", type=click.Choice(["light", "dark"]), default="light", show_default=True)
@click.option("--scale", default=1.0, show_default=True, help="Pixels of the picture per CSS pixel.")
@click.option("--query", default="", help="Follows the address, for example ?q=h200 or #models.")
@click.option("--whole", is_flag=True, help="The whole page, not only what the window shows.")
@click.option("--png", "path", required=True, type=click.Path(path_type=Path))
def main(page: Path, width: int, height: int, scheme: str, scale: float, query: str, whole: bool, path: Path) -> None:
    """Takes a picture of the file PAGE."""
    address = page.resolve().as_uri() + query
    with started() as port:
        how = {"width": width, "height": height, "scheme": scheme, "scale": scale, "whole": whole}
        path.write_bytes(asyncio.run(take(port, address, **how)))
