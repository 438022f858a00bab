"""A hub that lies: what it answers about a repository is held to its own listing, and to what a path may hold."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costhub.errors import CosthubError, HubError
from costhub.hub.data import load_measurements
from costhub.hub.pull import pull
from costhub.hub.remote import watch as module
from costhub.hub.remote.remote_repo import RemoteRepo
from costhub.hub.remote.watch import sound_answers, watched

REPO = "acme/one-mlp"
ADDRESS = f"hf-hub:{REPO}"
Trick = Callable[[Any], bool]


@pytest.fixture
def lying(
    hugging_face: Any, sound_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Trick], None]:
    """A hub with a sound model, whose answers a trick gives first; the function that sets the trick."""
    folder = sound_model(manifest=True)
    hugging_face.commit(REPO, {p.name: p.read_bytes() for p in folder.iterdir()})
    monkeypatch.setenv("COSTHUB_CACHE", str(tmp_path / "cache"))
    handler = hugging_face._server.RequestHandlerClass
    usual = handler._dispatch

    def install(trick: Trick) -> None:
        monkeypatch.setattr(handler, "_dispatch", lambda request: trick(request) or usual(request))

    return install


def is_tree(request: Any) -> bool:
    return "/tree/" in request.path


def is_config(request: Any) -> bool:
    return "/resolve/" in request.path and request.path.endswith("config.json")


def entries(*paths: str, size: Any = 3) -> Trick:
    """A listing of these files."""
    told = [{"type": "file", "path": path, "size": size, "oid": "a" * 40} for path in paths]
    return answer(is_tree, json.dumps(told).encode())


def answer(which: Callable[[Any], bool], body: bytes, status: int = 200, **headers: str) -> Trick:
    named = {key.replace("_", "-"): value for key, value in headers.items()}

    def trick(request: Any) -> bool:
        if which(request):
            request._send(status, body, named)
        return which(request)

    return trick


def endless(request: Any) -> bool:
    """More bytes than any listing says."""
    if not is_config(request):
        return False
    request.send_response(200)
    for name, value in {"Content-Length": str(1 << 34), "ETag": '"a"', "X-Repo-Commit": "a" * 40}.items():
        request.send_header(name, value)
    request.end_headers()
    if request.command != "HEAD":
        for _ in range(200):
            request.wfile.write(bytes(1 << 20))
    request.close_connection = True
    return True


def pages(request: Any) -> bool:
    if not is_tree(request):
        return False
    link = f'<{request.url}{request.path}?page={time.monotonic_ns()}>; rel="next"'
    request._send(200, b'[{"type":"file","path":"a","size":1,"oid":"a"}]', {"Link": link})
    return True


@pytest.mark.parametrize(
    ("trick", "words"),
    [
        (entries("../x.json"), "no Hugging Face hub gives"),
        (entries("/x.json"), "no Hugging Face hub gives"),
        (entries("a\\b.json"), "no Hugging Face hub gives"),
        (entries("\x1b[2J.json"), "no Hugging Face hub gives"),
        (entries("x.json", size=-5), "has -5 bytes"),
        (entries("x.json", size="5"), "has '5' bytes"),
        (entries(*(f"{number}.json" for number in range(101))), "more than the 100 files"),
        (entries("x.json", size=3 << 30), "more than the 2,147,483,648"),
        (answer(is_tree, b'{"a": 1}'), "no Hugging Face hub gives"),
        (answer(is_tree, b"[1]"), "no Hugging Face hub gives"),
        (answer(is_tree, b"[" * 100_000), "recursion"),
        (answer(is_tree, b"[]", Content_Encoding="gzip"), "it is compressed"),
        (pages, "its pages do not end"),
        (endless, "has more than the"),
        (answer(is_config, b"{}", ETag='"../../x"', X_Repo_Commit="a" * 40), "its etag is"),
        (answer(is_config, b"{}", ETag='"a"', X_Repo_Commit="../../x"), "its x-repo-commit is"),
        (answer(is_config, b"", 302, Location="file:///etc/passwd"), "it leads to file:"),
    ],
)
def test_a_hub_that_lies_is_a_sentence(
    trick: Trick, words: str, lying: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_PAGES", 20)
    lying(trick)

    with pytest.raises(CosthubError, match=words):
        pull(ADDRESS, out=tmp_path / "out")

    assert not (tmp_path / "out").exists()
    assert not [path for path in tmp_path.rglob("x*") if path.is_file() or path.is_symlink()]
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 40 << 20


def silent_at(part: str) -> Trick:
    return lambda request: part in request.path and (threading.Event().wait(3) or request._cut() or True)


def test_a_server_that_says_nothing_is_not_waited_for(
    lying: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.3)
    monkeypatch.setattr("time.sleep", lambda _: None)  # between two questions
    lying(silent_at("/"))

    begun = time.monotonic()
    with pytest.raises(CosthubError, match="could not be fetched"):
        pull(ADDRESS, out=tmp_path / "out")
    assert time.monotonic() - begun < 2.9  # it would answer after 3 s


def test_a_server_that_is_silent_while_something_is_written_is_not_waited_for(
    lying: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costhub.hub.remote.remote_repo.WRITE_S", 1.0)
    repo, file = RemoteRepo(REPO, "model"), tmp_path / "x.json"
    file.write_text("{}")
    head = repo.head()
    assert head is not None
    lying(silent_at("/commit/"))

    begun = time.monotonic()
    with pytest.raises(HubError, match="could not be reached"):
        repo.commit(head, {"x.json": file}, [], message="m")
    assert time.monotonic() - begun < 2.9  # it would answer after 3 s


def test_a_server_that_is_silent_while_data_are_read_is_not_waited_for(
    lying: Any, hugging_face: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hugging_face.commit("datasets/acme/cpu0", {"measurements/a/train-00000-of-00001.parquet": b"x"})
    monkeypatch.setattr("costhub.hub.data.ANSWER_S", 0.3)
    monkeypatch.setattr("time.sleep", lambda _: None)  # the client asks six times, longer and longer apart
    lying(silent_at("/tree/"))

    begun = time.monotonic()
    with pytest.raises(HubError, match="could not be fetched"):
        load_measurements("hf-hub:acme/cpu0")
    assert time.monotonic() - begun < 2.9


def test_a_sound_hub_is_believed_also_where_a_file_moves(lying: Any, tmp_path: Path, hugging_face: Any) -> None:
    commit = {"X-Repo-Commit": hugging_face.refs[REPO]["main"]}

    def moved(request: Any) -> bool:
        is_first = is_config(request) and not request.path.startswith("/elsewhere")
        if is_first:
            request._send(302, b"", {"Location": f"/elsewhere{request.path}", "ETag": '"abc"', **commit})
        elif request.path.startswith("/elsewhere"):
            request._send(200, hugging_face.files(REPO)["config.json"], {"ETag": '"abc"', **commit})
        return is_first or request.path.startswith("/elsewhere")

    lying(moved)

    assert (pull(ADDRESS, out=tmp_path / "out") / "config.json").is_file()


def test_answers_about_other_repositories_pass(lying: Any, hugging_face: Any) -> None:
    from huggingface_hub import HfApi

    lying(answer(is_tree, b'[{"type":"file","path":"../x","size":-1,"oid":"a"}]', ETag='"../../x"'))

    with watched("acme/another"):
        found = list(HfApi().list_repo_tree(REPO))

    assert [entry.path for entry in found] == ["../x"]


def test_the_head_of_a_repository_is_held_to_the_same(lying: Any) -> None:
    lying(answer(is_tree, b"[1, 2]"))

    with pytest.raises(HubError, match="no Hugging Face hub gives"):
        RemoteRepo(REPO, "model").head()


def test_errors_of_costhub_pass_through_the_context() -> None:
    with pytest.raises(HubError, match="mine"), sound_answers("hf-hub:a/b", HubError):
        raise HubError("mine")


def test_a_client_that_another_thread_uses_is_watched_and_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub.utils import _http, get_session

    monkeypatch.setattr(module, "_is_installed", False)
    monkeypatch.setattr(_http, "_GLOBAL_CLIENT_FACTORY", _http.default_client_factory)
    _http.close_session()
    client = get_session()

    with watched(REPO):
        assert get_session() is client
        assert not client.is_closed
        assert module._after in client.event_hooks["response"]
        _http.close_session()
        assert module._after in get_session().event_hooks["response"]
    _http.close_session()


def test_of_two_that_watch_one_repository_each_takes_out_its_own() -> None:
    """Two threads: the watch of the one that ends first is gone, and the other goes on to count."""
    first, second = watched(REPO), watched(REPO)
    mine, other = first.__enter__(), second.__enter__()

    second.__exit__(None, None, None)

    assert [watch is mine for watch in module._watches] == [True]
    mine.pages += 1
    first.__exit__(None, None, None)
    assert module._watches == []
    assert other.pages == 0
