"""Scenarios with a Hugging Face hub on this machine that lies: listings, sizes, redirects, answers, pull requests.

The server is the one of costhub's own tests, with tricks. It imports nothing of costhub but the id of a contribution.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripts.bench.security.scenarios.steps import costhub, need, tail

ROOT = Path(__file__).resolve().parents[4]
REPO, DATA = "acme/model", "datasets/acme/data"
TOKEN = "hf_a_token_of_the_user"  # noqa: S105 - made up
ENDLESS = 2300 << 20
"""Bytes after which an endless file ends after all: the disk is not ours alone."""
ESCAPE = "\x1b]0;owned\x07"


def _module() -> Any:
    spec = importlib.util.spec_from_file_location("loopback_hub", ROOT / "tests" / "hub" / "loopback_hub.py")
    assert spec is not None and spec.loader is not None  # noqa: PT018 - for the type checker
    module = importlib.util.module_from_spec(spec)
    sys.modules["loopback_hub"] = module  # dataclasses look their own module up there
    spec.loader.exec_module(module)
    return module


Trick = Callable[[Any], bool]
"""Gets the handler of a request; True where it has answered."""


def lying(trick: Trick) -> Any:
    """A hub whose requests a trick sees first."""
    module = _module()

    class Trickster(module._Handler):  # type: ignore[misc,name-defined]
        def _dispatch(self) -> None:
            if not trick(self):
                super()._dispatch()

    module._Handler = Trickster
    return module.LoopbackHub()


def files_of(folder: Path) -> dict[str, bytes]:
    """Path -> content."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def _is_tree(request: Any) -> bool:
    return "/tree/" in request.path


def _is_file(request: Any, name: str = "config.json") -> bool:
    return "/resolve/" in request.path and request.path.endswith(name)


def _entry(path: str, size: int = 3) -> dict[str, Any]:
    return {"type": "file", "path": path, "size": size, "oid": hashlib.sha1(path.encode()).hexdigest()}  # noqa: S324


def _listing(*more: dict[str, Any], instead: bool = False) -> Trick:
    """Further entries in the listing; every file that is asked for is there."""

    def trick(request: Any) -> bool:
        if _is_tree(request):
            sound = [] if instead else [_entry(n, len(c)) for n, c in request.hub.files(REPO).items()]
            request._json([*sound, *more])
            return True
        if "/resolve/" in request.path and not any(request.path.endswith(f"/{n}") for n in request.hub.files(REPO)):
            request._send(200, b"{}\n", {"ETag": '"abc"', "X-Repo-Commit": request.hub.refs[REPO]["main"]})
            return True
        return False

    return trick


def _streamed(name: str, size: int, *, said: int | None = None, pause_s: float = 0.0, piece: int = 1 << 20) -> Trick:
    """A file whose bytes never seem to end."""

    def trick(request: Any) -> bool:
        if not _is_file(request, name):
            return False
        request.send_response(200)
        request.send_header("Content-Length", str(size if said is None else said))
        request.send_header("ETag", '"' + "a" * 40 + '"')
        request.send_header("X-Repo-Commit", next(iter(request.hub.refs.values()))["main"])
        request.end_headers()
        if request.command != "HEAD":
            left = size
            while left > 0:
                request.wfile.write(b"{" * min(piece, left))
                request.wfile.flush()
                left -= piece
                time.sleep(pause_s)
        request.close_connection = True
        return True

    return trick


def _answer(which: Callable[[Any], bool], body: bytes, status: int = 200, **headers: str) -> Trick:
    def trick(request: Any) -> bool:
        if which(request):
            request._send(status, body, {name.replace("_", "-"): value for name, value in headers.items()})
        return which(request)

    return trick


def _with_headers(**headers: str) -> Trick:
    """Sound files with other headers."""

    def trick(request: Any) -> bool:
        if "/resolve/" not in request.path:
            return False
        name = request.path.split("/resolve/")[1].split("/", 1)[1]
        content = request.hub.files(REPO).get(name, b"")
        usual = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": request.hub.refs[REPO]["main"]}
        request._send(200, content, usual | {key.replace("_", "-"): value for key, value in headers.items()})
        return True

    return trick


def _silent(request: Any) -> bool:
    time.sleep(100)
    request.close_connection = True
    return True


def _to(location: str) -> Trick:
    return lambda request: _is_file(request) and (request._send(302, b"", {"Location": location}) or True)


def _loop(request: Any) -> bool:
    if _is_file(request):
        request._send(302, b"", {"Location": request.path})
    return _is_file(request)


def _changed(request: Any) -> bool:
    """Other bytes than those that the manifest lists, of the same length."""
    if not _is_file(request, "model.ubj"):
        return False
    content = request.hub.files(REPO)["model.ubj"]
    request._send(200, content[:-100] + bytes(100), {"ETag": '"b"', "X-Repo-Commit": request.hub.refs[REPO]["main"]})
    return True


def _bomb(which: Callable[[Any], bool], gigabytes: int) -> Trick:
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = b" " * (1 << 24)
    body = b"".join(deflate.compress(piece) for _ in range(64 * gigabytes)) + deflate.flush()
    return _answer(which, body, Content_Encoding="gzip", ETag='"c"', X_Repo_Commit="a" * 40)


def _many(request: Any) -> bool:
    if not _is_tree(request):
        return False
    body = ",".join(json.dumps(_entry(f"f{number:07d}.json", 1)) for number in range(10**6))
    request._send(200, f"[{body}]".encode(), {"Content-Type": "application/json"})
    return True


def _endless_pages(request: Any) -> bool:
    """Each page of the listing names a next one."""
    if not _is_tree(request):
        return False
    page = f'<{request.url}{request.path}?page={time.monotonic_ns()}>; rel="next"'
    request._send(200, json.dumps([_entry(f"{time.monotonic_ns()}.json", 1)]).encode(), {"Link": page})
    return True


def _headers(request: Any) -> bool:
    request.send_response(200)
    for number in range(100_000):
        request.send_header(f"X-{number}", "x" * 100)
    request.end_headers()
    return True


def _fails_once() -> Trick:
    """The listing, which limits what is fetched, breaks off as often as the client asks for it; then files are huge."""
    large = _streamed("config.json", ENDLESS)

    def trick(request: Any) -> bool:
        if _is_tree(request):
            request.close_connection = True
            return True
        return large(request)

    return trick


def _info(**values: Any) -> Trick:
    def trick(request: Any) -> bool:
        is_info = request.path.startswith(f"/api/models/{REPO}") and not _is_tree(request)
        if is_info:
            sha = request.hub.refs[REPO]["main"]
            request._json({"id": REPO, "modelId": REPO, "sha": sha, "siblings": []} | values)
        return is_info

    return trick


def _everything(request: Any) -> bool:
    return True


TRICKS: dict[str, Callable[[], Trick]] = {
    "listing-up": lambda: _listing(_entry("../escaped.json"), _entry("a/../../../escaped.json")),
    "listing-absolute": lambda: _listing(_entry("/tmp/costhub-escaped.json")),  # noqa: S108 - nobody may write it
    "listing-backslash": lambda: _listing(_entry("..\\escaped.json"), _entry("C:\\escaped.json")),
    "listing-names": lambda: _listing(_entry(f"{ESCAPE}.json"), _entry("a\nb.json"), _entry("\x00.json")),
    "listing-large": lambda: _listing(_entry("more.json", 3 << 30)),
    "listing-negative": lambda: _listing(_entry("more.json", -(3 << 40)), _entry("other.json", 3 << 40)),
    "listing-million": lambda: _many,
    "listing-endless": lambda: _endless_pages,
    "listing-deep": lambda: _answer(_is_tree, b"[" * 100_000 + b"]" * 100_000),
    "listing-object": lambda: _answer(_is_tree, b'{"a": 1}'),
    "listing-numbers": lambda: _answer(_is_tree, b"[1, 2, null]"),
    "listing-bare": lambda: _answer(_is_tree, b'[{"type": "file"}]'),
    "listing-once": _fails_once,
    "listing-bomb": lambda: _bomb(_is_tree, 3),
    "file-endless": lambda: _streamed("config.json", ENDLESS),
    "file-short": lambda: _streamed("config.json", 1000, said=10**9),
    "file-long": lambda: _streamed("config.json", 64 << 20, said=100),
    "file-slow": lambda: _streamed("config.json", 200, pause_s=0.2, piece=1),
    "file-changed": lambda: _changed,
    "file-bomb": lambda: _bomb(_is_file, 3),
    "etag-up": lambda: _with_headers(ETag='"../../../../../escaped"'),
    "etag-long": lambda: _with_headers(ETag='"' + "a" * 5000 + '"'),
    "commit-up": lambda: _with_headers(X_Repo_Commit="../../../../../escaped"),
    "info-commit-up": lambda: _info(sha="../../../../../escaped"),
    "info-object": lambda: _info(sha={"a": 1}),
    "info-text": lambda: _answer(_everything, b'"' + ESCAPE.encode() + b'"'),
    "info-deep": lambda: _answer(_everything, b"[" * 100_000),
    "error-escapes": lambda: _answer(_everything, b"{}", 500, X_Error_Message=f"x {ESCAPE} y"),
    "redirect-file": lambda: _to(f"file://{Path('home/secret.txt').resolve()}"),
    "redirect-loop": lambda: _loop,
    "silent": lambda: _silent,
    "headers": lambda: _headers,
}


def pulled(trick: str) -> None:
    """A pull from a hub that lies; nothing may be written outside, nothing huge, and only sound models get in."""
    with lying(TRICKS[trick]()) as hub:
        files = files_of(Path("m"))
        hub.commit(REPO, files)
        env = {**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN}
        done = costhub("pull", f"hf-hub:{REPO}", "--out", "out", env=env)
        _look(files)
        print(tail(done))
        print(tail(done), file=sys.stderr)
        sys.stdout.flush()
        os._exit(done.returncode)  # its threads may still be talking


def _look(files: dict[str, bytes]) -> None:
    escaped = [path for path in Path().rglob("*escaped*") if path.is_file() or path.is_symlink()]
    need(not escaped, f"a file outside was written: {escaped[:1]}")
    need(not Path("/tmp/costhub-escaped.json").exists(), "a file in /tmp was written")  # noqa: S108
    paths = [path for root in ("home", "out", "tmp") for path in Path(root).rglob("*") if path.is_file()]
    stored = sum(path.stat().st_size for path in paths)
    need(stored < 1 << 30, f"{stored / 1e9:.1f} GB were written")
    if Path("out").exists():
        got = files_of(Path("out"))
        need(got == files, f"what was installed differs in {sorted(set(got) ^ set(files))[:3] or 'content'}")


def token_sent_elsewhere() -> None:
    """A redirect to another server must not take the user's token along."""
    heard: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def listen() -> None:
        while True:
            connection, _ = listener.accept()
            heard.append(connection.recv(65536))
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            connection.close()

    threading.Thread(target=listen, daemon=True).start()
    with lying(_to(f"http://localhost:{listener.getsockname()[1]}/x")) as hub:
        hub.commit(REPO, files_of(Path("m")))
        env = {**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN}
        done = costhub("pull", f"hf-hub:{REPO}", "--out", "out", env=env)
        need(not any(TOKEN.encode() in each for each in heard), "the token went to another server")
        print(f"{len(heard)} requests went to another server; {tail(done)}")


def read_remotely(trick: str) -> None:
    """Statistics of a dataset on a hub that lies."""
    files = files_of(Path("d"))
    shard = next(name for name in files if name.startswith("measurements/"))
    changes: dict[str, dict[str, bytes]] = {
        "garbage": {shard: b"PAR1" + b"\0" * 5000 + b"PAR1"},
        "footer": {shard: b"PAR1" + b"\0" * 100 + (0x7FFFFFFF).to_bytes(4, "little") + b"PAR1"},
        "many": {f"measurements/device-{n}/train-00000-of-00001.parquet": b"PAR1" for n in range(20_000)},
        "names": {f"measurements/{ESCAPE}/train-00000-of-00001.parquet": files[shard]},
    }
    with lying(lambda request: False) as hub:
        hub.commit(DATA, files | changes[trick])
        done = costhub("stats", f"hf-hub:{DATA.removeprefix('datasets/')}", env={**os.environ, "HF_ENDPOINT": hub.url})
        need(ESCAPE not in done.stdout + done.stderr, "escapes reached the terminal")
        print(tail(done))
        print(tail(done), file=sys.stderr)
        sys.stdout.flush()
        os._exit(done.returncode)


def reviewed(how: str) -> None:
    """Reviews a hostile contribution to merge it: the main branch stays as it is."""
    from costhub.hub.contribute import contribution_id

    own = files_of(Path("d"))
    tables = {name: content for name, content in own.items() if name.endswith(".parquet")}
    shard = next(name for name in tables if name.startswith("measurements/"))
    bad = files_of(Path("bad"))
    offered = {name: bad.get(name, content) for name, content in tables.items()}
    beside: dict[str, bytes] = {}
    if how == "garbage":
        offered[shard] = b"PAR1" + b"\0" * 5000 + b"PAR1"
    if how == "readme":
        beside = {"README.md": b"---\n---\n<script>", "setup.py": b"import os"}
    if how == "paths":
        beside = {f"contributions/{'0' * 16}/../../x.parquet": b"PAR1"}
    number = contribution_id({name: hashlib.sha256(content).hexdigest() for name, content in offered.items()})
    if how == "renamed":
        number = "0123456789abcdef"

    def negative(request: Any) -> bool:
        """Sizes of less than nothing, which hide how much would be fetched."""
        if how != "negative" or not _is_tree(request):
            return False
        files = request.hub.files(DATA, "refs/pr/1") if "pr%2F1" in request.path else request.hub.files(DATA)
        request._json([_entry(path, -(3 << 40)) for path in files])
        return True

    with lying(negative) as hub:
        hub.commit(DATA, own)
        inbox = {f"contributions/{number}/{name}": content for name, content in offered.items()}
        hub.commit(DATA, {**own, **inbox, **beside}, ref="refs/pr/1")
        module = sys.modules["loopback_hub"]
        title = f"Measurements {ESCAPE} [{number}]"
        hub.pulls[DATA] = [module.PullRequest(1, title, "", hub.refs[DATA]["main"])]
        env = {**os.environ, "HF_ENDPOINT": hub.url}
        done = costhub("review", f"hf-hub:{DATA.removeprefix('datasets/')}@refs/pr/1", "--merge", env=env)
        need(hub.files(DATA) == own, "the main branch changed")
        need(ESCAPE not in done.stdout + done.stderr, "escapes reached the terminal")
        print(tail(done))
        print(tail(done), file=sys.stderr)
        sys.stdout.flush()
        os._exit(done.returncode)


def locked_data(trick: str) -> None:
    """Pulls a locked dataset from a hub that lies about the locked commit by then."""
    lies: dict[str, Trick | None] = {"none": None}
    told = [lies["none"]]
    files = files_of(Path("d"))
    shard = next(name for name in files if name.startswith("measurements/"))

    def entries(**changed: int) -> list[dict[str, Any]]:
        return [
            {**_entry(name, changed.get("size", len(content))), "oid": blob_id(content)}
            for name, content in files.items()
        ]

    def listed(*more: dict[str, Any], **changed: int) -> Trick:
        return lambda request: _is_tree(request) and (request._json([*entries(**changed), *more]) or True)

    lies |= {
        "up": listed(_entry("measurements/../../escaped/train-00000-of-00001.parquet")),
        "pattern": listed(_entry("measurements/[!x]*/train-00000-of-00001.parquet")),
        "names": listed(_entry(f"measurements/{ESCAPE}/train-00000-of-00001.parquet")),
        "more": listed(_entry("measurements/other/train-00000-of-00001.parquet", 3 << 40)),
        "negative": listed(size=-(3 << 40)),
        "endless": _streamed(shard, ENDLESS),
        "garbage": _answer(lambda request: _is_file(request, shard), b"PAR1", ETag='"b"', X_Repo_Commit="a" * 40),
    }
    with lying(lambda request: told[0] is not None and told[0](request)) as hub:
        hub.commit(DATA, files)
        env = {**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN}
        name = f"hf-hub:{DATA.removeprefix('datasets/')}"
        locked = costhub("lock", "--data", name, env=env)
        need(locked.returncode == 0, f"a sound dataset was not locked: {tail(locked)}")
        told[0] = lies[trick]
        done = costhub("pull", name, "--locked", "--data", env=env)
        _look({})
        need(ESCAPE not in done.stdout + done.stderr, "escapes reached the terminal")
        print(tail(done))
        print(tail(done), file=sys.stderr)
        sys.stdout.flush()
        os._exit(done.returncode)  # its threads may still be talking


def blob_id(content: bytes) -> str:
    """What git calls a file."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324 - git's


def offered_model(how: str) -> None:
    """Reviews a model's pull request with what no model has."""
    sound = files_of(Path("m"))
    more = {
        "code": {"modeling.py": b"import os"},
        "hidden": {".ssh/authorized_keys.json": b"{}"},
        "pickle": {"model.safetensors": b"\x80\x04cos\nsystem\n"},
        "up": {"../x.json": b"{}"},
        "escapes": {f"{ESCAPE}.json": b"{}"},
    }[how]
    with lying(lambda request: False) as hub:
        hub.commit(REPO, sound)
        hub.commit(REPO, sound | more, ref="refs/pr/1")
        module = sys.modules["loopback_hub"]
        hub.pulls[REPO] = [module.PullRequest(1, "A model", "", hub.refs[REPO]["main"])]
        done = costhub("review", f"hf-hub:{REPO}@refs/pr/1", env={**os.environ, "HF_ENDPOINT": hub.url})
        need(ESCAPE not in done.stdout + done.stderr, "escapes reached the terminal")
        need(not list(Path().glob("*x.json")), "a file outside was written")
        print(tail(done))
        print(tail(done), file=sys.stderr)
        sys.stdout.flush()
        os._exit(done.returncode)
