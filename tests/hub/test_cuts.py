"""Connections cut and clients killed in the middle: a second run puts everything right."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from scripts.bench.common.fresh import run_module
from scripts.bench.data.cutting_proxy import PARTS, CutPoint, CuttingProxy, random_point

CREATE = json.dumps({"name": "one", "organization": "acme"}).encode()


@pytest.fixture
def proxy(server: Any) -> Any:
    with CuttingProxy(int(server.url.rsplit(":", 1)[1])) as running:
        yield running


def ask(proxy: Any, path: str, body: bytes | None = None) -> bytes:
    request = urllib.request.Request(proxy.url + path, data=body, method="POST" if body else "GET")  # noqa: S310
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - to this machine
        return bytes(answer.read())


def test_without_a_point_all_goes_through_and_is_counted(proxy: Any, server: Any) -> None:
    content = bytes(range(256)) * 100
    server.commit("acme/model", {"model.ubj": content})

    assert ask(proxy, "/acme/model/resolve/main/model.ubj") == content
    (size,) = proxy.sizes
    assert (size["request body"], size["response body"]) == (0, len(content))
    assert size["request head"] > 50
    # What the server says of itself is the address it was asked under.
    assert json.loads(ask(proxy, "/api/repos/create", CREATE))["url"] == f"{proxy.url}/acme/one"


@pytest.mark.parametrize(
    ("part", "takes_effect"),
    [("request head", False), ("request body", False), ("response head", True), ("response body", True)],
)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_half_a_request_has_no_effect_and_half_an_answer_takes_none_back(
    proxy: Any, server: Any, part: str, takes_effect: bool, share: float
) -> None:
    proxy.point = CutPoint(0, part, share)

    # Of a head that ends early urllib makes the best it can; the body is gone in any case.
    with contextlib.suppress(http.client.HTTPException, OSError):
        assert ask(proxy, "/api/repos/create", CREATE) == b""

    assert proxy.reached == "POST /api/repos/create HTTP/1.1"
    assert ("acme/one" in server.commits) == takes_effect
    ask(proxy, "/api/models/acme/one" if takes_effect else "/api/whoami-v2")  # once, and no more


def test_a_server_that_stays_away_answers_nobody_until_it_is_healed(proxy: Any) -> None:
    proxy.point, proxy.stays_away = CutPoint(0, "response head", 0.0), True
    for _ in range(3):
        with pytest.raises((http.client.HTTPException, OSError)):
            ask(proxy, "/api/whoami-v2")

    proxy.heal()

    assert json.loads(ask(proxy, "/api/whoami-v2"))["name"] == "tester"


def test_points_lie_in_parts_that_there_are() -> None:
    sizes = [dict.fromkeys(PARTS, 0) | {"request head": 9, "response head": 9}] * 3
    sizes.append(sizes[0] | {"response body": 5})

    points = [random_point(sizes, random.Random(seed)) for seed in range(50)]

    assert {point.part for point in points} == {"request head", "response head", "response body"}
    assert {point.number for point in points if point.part == "response body"} == {3}


def cut(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    path = tmp_path / "cuts.json"
    done = run_module("scripts.bench", "cuts", *arguments, "--json", path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(path.read_text()))


@pytest.mark.slow
def test_ten_cuts_are_put_right_by_a_second_run(tmp_path: Path) -> None:
    commands = ("pull", "load_measurements", "publish, measurements")

    found = cut(tmp_path, "--cuts", "10", "--seed", "3", "--jobs", "4", *(f"--command={name}" for name in commands))

    assert [row["command"] for row in found["rows"]] == list(commands)
    assert sum(row["reached"] for row in found["rows"]) == 10
    assert found["wrong"] == []


@pytest.mark.slow
def test_two_hundred_cuts_are_put_right_by_a_second_run(tmp_path: Path) -> None:
    found = cut(tmp_path, "--cuts", "200", "--seed", "1", "--jobs", "2")

    assert sum(row["identical"] for row in found["rows"]) == 200
