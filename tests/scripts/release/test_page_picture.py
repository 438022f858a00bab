"""Pictures of pages: what is asked of a browser that speaks the DevTools protocol, and what it may answer."""

from __future__ import annotations

import asyncio
import json
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler

from scripts.release import page_picture

PNG = b"\x89PNG of the page"
HOW = {"width": 390, "height": 800, "scheme": "dark", "scale": 2.0}
Ask = Callable[..., bytes]


class Page:
    """A browser with one page: it answers on the loopback as Chromium does, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.refused = ""
        self._states = iter(["loading", "interactive"])

    def answer(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((method, parameters))
        if method == self.refused:
            return {"error": {"message": "no such page"}}
        if method == "Page.captureScreenshot":
            return {"result": {"data": b64encode(PNG).decode()}}
        value = next(self._states, "complete") if parameters.get("expression") == "document.readyState" else None
        return {"result": {"result": {"value": value}}}

    def of(self, method: str) -> list[dict[str, Any]]:
        return [parameters for asked, parameters in self.asked if asked == method]


def serve(page: Page) -> tuple[HTTPServer, int]:
    socket, port = bind_unused_port()

    class Pages(RequestHandler):
        def get(self) -> None:
            address = f"ws://127.0.0.1:{port}/page"
            self.write(json.dumps([{"type": "worker"}, {"type": "page", "webSocketDebuggerUrl": address}]))

    class Socket(WebSocketHandler):
        def on_message(self, message: str | bytes) -> None:
            asked = json.loads(message)
            self.write_message(json.dumps({"method": "Page.loadEventFired"}))  # an event between two answers
            answer = page.answer(asked["method"], asked["params"])
            self.write_message(json.dumps({"id": asked["id"], **answer}))

    server = HTTPServer(Application([("/json/list", Pages), ("/page", Socket)]))
    server.add_socket(socket)
    return server, port


def take(page: Page, *, whole: bool = False) -> bytes:
    async def taken() -> bytes:
        server, port = serve(page)
        try:
            return await page_picture.take(port, "file:///page.html", whole=whole, **HOW)
        finally:
            server.stop()

    return asyncio.run(taken())


def test_a_picture_is_taken_of_the_whole_window_once_the_page_is_there() -> None:
    page = Page()

    assert take(page) == PNG
    assert page.of("Emulation.setDeviceMetricsOverride") == [
        {"width": 390, "height": 800, "deviceScaleFactor": 2.0, "mobile": True}
    ]
    assert page.of("Emulation.setEmulatedMedia") == [{"features": [{"name": "prefers-color-scheme", "value": "dark"}]}]
    assert page.of("Page.navigate") == [{"url": "file:///page.html"}]
    assert len(page.of("Runtime.evaluate")) == 3  # asked until it is complete
    assert page.asked[-1] == ("Page.captureScreenshot", {"captureBeyondViewport": False})


def test_a_picture_of_a_whole_page_loads_the_pictures_below_the_window_first() -> None:
    page = Page()

    take(page, whole=True)

    (*_, last) = page.of("Runtime.evaluate")
    assert "loading = 'eager'" in last["expression"]
    assert page.asked[-1] == ("Page.captureScreenshot", {"captureBeyondViewport": True})


def test_what_the_browser_refuses_is_a_sentence() -> None:
    page = Page()
    page.refused = "Page.navigate"

    with pytest.raises(click.ClickException, match=r"Page\.navigate: no such page"):
        take(page)


def test_a_machine_without_a_browser_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)

    with pytest.raises(click.ClickException, match="Neither chromium nor google-chrome"), page_picture.started():
        pass


def test_the_port_is_read_once_its_line_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "DevToolsActivePort"
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        file.write_text("92" if len(waited) == 1 else "9222\n/devtools/browser/x")

    monkeypatch.setattr(asyncio, "sleep", sleep)

    assert asyncio.run(page_picture._port(file)) == 9222
    assert len(waited) == 2


def test_a_browser_that_never_says_its_port_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_picture, "START_S", 0.1)

    with pytest.raises(click.ClickException, match="did not start within"):
        asyncio.run(page_picture._port(tmp_path / "DevToolsActivePort"))


def test_the_command_writes_the_picture_of_a_file_with_its_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, str, dict[str, Any]]] = []

    @contextmanager
    def started() -> Iterator[int]:
        yield 9222

    async def take(port: int, address: str, **how: Any) -> bytes:
        asked.append((port, address, how))
        return PNG

    monkeypatch.setattr(page_picture, "started", started)
    monkeypatch.setattr(page_picture, "take", take)
    (tmp_path / "page.html").write_text("<p>hello</p>")
    words = [str(tmp_path / "page.html"), "--query", "#models", "--whole", "--png", str(tmp_path / "page.png")]

    done = CliRunner().invoke(page_picture.main, words)

    assert done.exit_code == 0, done.output
    assert (tmp_path / "page.png").read_bytes() == PNG
    (port, address, how) = asked[0]
    assert (port, address) == (9222, f"{(tmp_path / 'page.html').as_uri()}#models")
    assert how == {"width": 1280, "height": 800, "scheme": "light", "scale": 1.0, "whole": True}
