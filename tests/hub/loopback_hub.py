"""A Hugging Face hub on 127.0.0.1: as much of its protocol as snapshots and ranges of files need."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

API = re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/(revision|tree|paths-info)/([^/]+)(?:/(.+))?)?/?")
RESOLVE = re.compile(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class LoopbackHub:
    """Serves repositories held in memory while it is entered; notes every request, and counts what it sends.

    A model repository is called `org/name`, a dataset `datasets/org/name`, as in the addresses of its files.
    """

    def __init__(self) -> None:
        self.commits: dict[str, dict[str, dict[str, bytes]]] = {}
        self.refs: dict[str, dict[str, str]] = {}
        self.requests: list[str] = []
        self.bytes_served: Counter[str] = Counter()
        """Path of a file in its repository -> bytes of it that went out."""
        self.gated: set[str] = set()
        self.fail_after: int | None = None
        """How many more requests for content are answered before all fail; None answers every one."""
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def commit(self, repo: str, files: dict[str, bytes], *, ref: str = "main") -> str:
        """Makes `ref` point at a new commit with these files, and returns its id."""
        sha = hashlib.sha1(repr(sorted(files.items())).encode(), usedforsecurity=False).hexdigest()
        self.commits.setdefault(repo, {})[sha] = files
        self.refs.setdefault(repo, {})[ref] = sha
        return sha

    def __enter__(self) -> LoopbackHub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: LoopbackHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        """Keeps the output of the tests clean."""

    def _answer(self) -> None:
        # The body is read in any case: what is left of it would be taken for the next request.
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        self.hub.requests.append(f"{self.command} {path}")
        api, resolve = API.fullmatch(path), RESOLVE.fullmatch(path)
        if not (api or resolve):
            return self._send(404, b"{}")
        # Asked about a repository without a revision, the hub answers for its main branch.
        kind, name, ref = (api[1], api[2], api[4] or "main") if api else resolve.group(1, 2, 3)  # type: ignore[index,union-attr]
        repo = f"datasets/{name}" if (kind or "").startswith("datasets") else name
        if repo in self.hub.gated:
            return self._send(403, b"{}", {"X-Error-Code": "GatedRepo"})
        if repo not in self.hub.commits:
            return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        ref = unquote(ref)
        sha = self.hub.refs[repo].get(ref, ref)
        if sha not in self.hub.commits[repo]:
            return self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        files = self.hub.commits[repo][sha]
        if resolve:
            return self._send_file(files, unquote(resolve[4]), sha)
        if api and api[3] == "paths-info":
            wanted = parse_qs(body.decode())["paths"]
            return self._send_json([e for e in _entries(files) if e["path"] in wanted])
        if api and api[3] == "tree":
            return self._send_tree(files, unquote(api[5] or ""), sha)
        return self._send_json(_info(name, sha, files))

    def _send_tree(self, files: dict[str, bytes], folder: str, sha: str) -> None:
        recursive = parse_qs(urlsplit(self.path).query).get("recursive", ["false"])[0].lower() == "true"
        prefix = f"{folder}/" if folder else ""
        inside = [e for e in _entries(files) if e["path"].startswith(prefix)]
        if folder and not inside:
            return self._send(404, b"{}", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": sha})
        shallow = [e for e in inside if "/" not in e["path"].removeprefix(prefix)]
        return self._send_json(inside if recursive else shallow)

    def _send_file(self, files: dict[str, bytes], name: str, sha: str) -> None:
        if name not in files:
            return self._send(404, b"{}", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": sha})
        if self.hub.fail_after is not None:
            if self.hub.fail_after == 0:
                return self._send(403, b"{}")
            self.hub.fail_after -= 1
        content, status = files[name], 200
        headers = {"X-Repo-Commit": sha, "ETag": f'"{_blob_id(content)}"', "Accept-Ranges": "bytes"}
        asked = RANGE.fullmatch(self.headers.get("Range") or "")
        if asked:
            first, last = int(asked[1]), int(asked[2] or len(content) - 1)
            if first >= len(content):
                return self._send(416, b"", headers | {"Content-Range": f"bytes */{len(content)}"})
            headers["Content-Range"] = f"bytes {first}-{min(last, len(content) - 1)}/{len(content)}"
            content, status = content[first : last + 1], 206
        if self.command != "HEAD":
            self.hub.bytes_served[name] += len(content)
        return self._send(status, content, headers)

    def _send_json(self, content: Any) -> None:
        self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _info(repo: str, sha: str, files: dict[str, bytes]) -> dict[str, Any]:
    return {"id": repo, "modelId": repo, "sha": sha, "siblings": [{"rfilename": name} for name in files]}


def _entries(files: dict[str, bytes]) -> list[dict[str, Any]]:
    """All files, and the folders they lie in, as the hub lists them."""
    parents = {name[: end.start()] for name in files for end in re.finditer("/", name)}
    folders = [
        {"type": "directory", "path": path, "size": 0, "oid": _blob_id(path.encode())} for path in parents
    ]
    return folders + [
        {"type": "file", "path": name, "size": len(content), "oid": _blob_id(content)}
        for name, content in files.items()
    ]


def _blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
