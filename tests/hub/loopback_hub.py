"""A Hugging Face hub on 127.0.0.1: as much of its protocol as fetching a snapshot needs."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

API = re.compile(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?/?")
RESOLVE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


class LoopbackHub:
    """Serves repositories held in memory while it is entered; notes every request."""

    def __init__(self) -> None:
        self.commits: dict[str, dict[str, dict[str, bytes]]] = {}
        self.refs: dict[str, dict[str, str]] = {}
        self.requests: list[str] = []
        self.gated: set[str] = set()
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

    def log_message(self, format: str, *args: Any) -> None:
        """Keeps the output of the tests clean."""

    def _answer(self) -> None:
        path = urlsplit(self.path).path
        self.hub.requests.append(f"{self.command} {path}")
        api, resolve = API.fullmatch(path), RESOLVE.fullmatch(path)
        if not (api or resolve):
            return self._send(404, b"{}")
        # Asked about a repository without a revision, the hub answers for its main branch.
        repo, ref = (api[1], api[3] or "main") if api else (resolve[1], resolve[2])  # type: ignore[index]
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
            return self._send_file(files, unquote(resolve[3]), sha)
        return self._send_json(_tree(files) if api and api[2] == "tree" else _info(repo, sha, files))

    def _send_file(self, files: dict[str, bytes], name: str, sha: str) -> None:
        if name not in files:
            return self._send(404, b"{}", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": sha})
        return self._send(200, files[name], {"X-Repo-Commit": sha, "ETag": f'"{_blob_id(files[name])}"'})

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


def _tree(files: dict[str, bytes]) -> list[dict[str, Any]]:
    return [
        {"type": "file", "path": name, "size": len(content), "oid": _blob_id(content)}
        for name, content in files.items()
    ]


def _blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
