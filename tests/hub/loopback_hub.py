"""A Hugging Face hub on 127.0.0.1: its protocol for reading, for commits and for pull requests.

It refuses what the hub refuses: a card with an unknown licence, a commit on a stale parent, a large file that
was never uploaded, a repository, revision or folder that does not exist, a write without the token, half a
request. It takes no uploads to Xet storage, so clients that write run with HF_HUB_DISABLE_XET=1.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote

import yaml

API = re.compile(
    r"/api/(models|datasets)/([^/]+/[^/]+)"
    r"(?:/(revision|tree|paths-info|preupload|commit|tag|discussions|refs|xet-write-token)(?:/([^/]+)(?:/(.+))?)?)?/?"
)
RESOLVE = re.compile(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
BATCH = re.compile(r"/(datasets/)?([^/]+/[^/]+)\.git/info/lfs/objects/batch")
STORED = re.compile(r"/lfs/([0-9a-f]{64})")
RANGE = re.compile(r"bytes=(\d+)-(\d*)")
LICENCES = {"apache-2.0", "mit", "bsd-3-clause", "cc-by-4.0", "cc-by-sa-4.0", "cc0-1.0", "odc-by", "other"}
XET_TOKEN = re.compile(r"/api/(?:models|datasets)/[^/]+/[^/]+/xet-read-token/[0-9a-f]{40}")
XET_FILE = re.compile(r"/xet/v1/reconstructions/([0-9a-f]{64})")
XET_BLOCK = re.compile(r"/xet/blocks/([0-9a-f]{64})")
XET_CHUNK_BYTES = 1 << 16
LARGE = (".parquet", ".safetensors", ".ubj", ".png")
"""Endings of files that the hub keeps in its large file storage."""
CREATED = "2026-01-02T03:04:05.000Z"
Files = dict[str, bytes]


@dataclass
class Fault:
    """What goes wrong with requests that fit, some times, and then no more."""

    request: str
    """A regular expression on "METHOD /path"."""
    times: int = 1
    status: int | None = None
    """The answer; None cuts the connection."""
    after: bool = False
    """The request takes effect, and only its answer is lost."""


@dataclass
class PullRequest:
    """A pull request, or a plain discussion where it has no base."""

    num: int
    title: str
    description: str
    base: str
    status: str = "open"
    comments: list[str] = field(default_factory=list)
    merged_as: str | None = None


class LoopbackHub:
    """Serves repositories held in memory while it is entered; notes every request, and counts what it sends.

    A model repository is called `org/name`, a dataset `datasets/org/name`, as in the addresses of its files.
    """

    def __init__(self) -> None:
        self.commits: dict[str, dict[str, Files]] = {}
        self.refs: dict[str, dict[str, str]] = {}
        self.tags: dict[str, set[str]] = {}
        self.pulls: dict[str, list[PullRequest]] = {}
        self.messages: dict[str, str] = {}
        """Commit -> the first line of its message."""
        self.stored: Files = {}
        """sha256 -> a large file that was uploaded."""
        self.requests: list[str] = []
        self.bytes_served: Counter[str] = Counter()
        """Path of a file in its repository -> bytes of it that went out."""
        self.gated: set[str] = set()
        self.fail_after: int | None = None
        """How many more requests for content are answered before all fail; None answers every one."""
        self.faults: list[Fault] = []
        self.xet = False
        """Whether large files are offered for download from Xet storage too; uploads never go there."""
        self.token: str | None = None
        """What a write must bring; None lets everybody write."""
        self.before_commit: Callable[[], object] | None = None
        """Called once, before the next commit is looked at: somebody else may be quicker."""
        self.lock = threading.RLock()
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def commit(self, repo: str, files: Files, *, ref: str = "main", message: str = "") -> str:
        """Makes `ref` point at a new commit with these files, and returns its id."""
        parent = self.refs.get(repo, {}).get(ref, "") if message else ""
        text = repr((parent, message, sorted(files.items())) if message else sorted(files.items()))
        sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self.commits.setdefault(repo, {})[sha] = files
        self.refs.setdefault(repo, {})[ref] = sha
        self.messages[sha] = message
        return sha

    def files(self, repo: str, ref: str = "main") -> Files:
        """The files of a repository, for tests."""
        return self.commits[repo][self.refs[repo][ref]]

    def change(self, repo: str, changes: dict[str, bytes | None], *, ref: str = "main", message: str) -> str:
        """A commit on top of `ref`; None removes a file."""
        files = self.files(repo, ref) | changes
        kept = {name: content for name, content in files.items() if content is not None}
        return self.commit(repo, kept, ref=ref, message=message)

    def held(self) -> dict[str, Any]:
        """A copy of what it holds and has noted, for `hold`."""
        names = ("commits", "refs", "tags", "pulls", "messages", "stored", "requests", "bytes_served")
        return copy.deepcopy({name: getattr(self, name) for name in names})

    def hold(self, held: dict[str, Any]) -> None:
        """Holds what another server held: as if the same requests had been sent to this one."""
        vars(self).update(copy.deepcopy(held))

    def __enter__(self) -> LoopbackHub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up in the middle is nothing to tell of; anything else is."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    hub: LoopbackHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        """Keeps the output of the tests clean."""

    def _answer(self) -> None:
        # The body is read in any case: what is left of it would be taken for the next request.
        body = self._read_body()
        if body is None:
            return self._cut()
        self.body = body
        self.path, _, query = self.path.partition("?")
        self.queries = parse_qs(query)
        self.query = {key: values[-1] for key, values in self.queries.items()}
        self.silent = False
        with self.hub.lock:
            self.hub.requests.append(f"{self.command} {self.path}")
            fault = next((f for f in self.hub.faults if f.times and re.search(f.request, self.hub.requests[-1])), None)
            if fault:
                fault.times -= 1
                if not fault.after:
                    return self._cut() if fault.status is None else self._fail(fault.status, "It is broken.")
                self.silent = True
        self._dispatch()
        if self.silent:
            self._cut()

    def _read_body(self) -> bytes | None:
        """None where the client hung up before the end, of which nothing may take effect."""
        if (self.headers.get("Transfer-Encoding") or "").lower() == "chunked":
            parts = []
            while line := self.rfile.readline():
                size = int(line.split(b";")[0], 16)
                part = self.rfile.read(size + 2)
                parts.append(part[:size])
                if len(part) < size + 2:
                    return None
                if not size:
                    return b"".join(parts)
            return None
        if self.command in ("POST", "PUT") and not self.headers.get("Content-Length"):
            return None
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        return body if len(body) == size else None

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.close()

    def _dispatch(self) -> None:
        api, resolve = API.fullmatch(self.path), RESOLVE.fullmatch(self.path)
        writes = self.command in ("POST", "PUT") and not (api and api[3] == "paths-info")
        if writes and not self.path.startswith(("/lfs/", "/api/validate-yaml")) and not self._is_known():
            return self._fail(401, "Invalid username or password.")
        if self.path == "/api/validate-yaml":
            asked = json.loads(self.body)
            errors = _card_errors(asked["content"])
            found = {"errors": [{"message": error} for error in errors], "warnings": []}
            return self._json(found, 400 if errors else 200)
        if self.path == "/api/whoami-v2":
            known = self._is_known()
            return self._json({"name": "tester", "type": "user"}) if known else self._fail(401, "No token.")
        if self.path == "/api/repos/create":
            return self._create(json.loads(self.body))
        if self.path in ("/api/models", "/api/datasets"):
            return self._list(self.path.removeprefix("/api/"))
        if self.hub.xet and self.path.startswith(("/api/", "/xet/")):
            answer = self._xet()
            if answer is not None:
                return answer()
        stored, batch = STORED.fullmatch(self.path), BATCH.fullmatch(self.path)
        if stored:
            return self._store(stored[1])
        if batch:
            return self._batch(f"{batch[1] or ''}{batch[2]}", json.loads(self.body))
        if not (api or resolve):
            return self._send(404, b"{}")
        # Asked about a repository without a revision, the hub answers for its main branch.
        kind, name, ref = (api[1], api[2], api[4] or "main") if api else resolve.group(1, 2, 3)  # type: ignore[index,union-attr]
        repo = f"datasets/{name}" if (kind or "").startswith("datasets") else name
        if repo in self.hub.gated:
            return self._send(403, b"{}", {"X-Error-Code": "GatedRepo"})
        if repo not in self.hub.commits:
            return self._fail(404, "Repository not found", "RepoNotFound")
        if api and api[3] == "discussions":
            return self._discuss(repo, api[4], api[5])
        if api and api[3] == "refs":
            return self._refs(repo)
        ref = unquote(ref)
        sha = self.hub.refs[repo].get(ref, ref)
        if sha not in self.hub.commits[repo]:
            return self._fail(404, "Invalid rev id", "RevisionNotFound")
        files = self.hub.commits[repo][sha]
        if resolve:
            return self._send_file(files, unquote(resolve[4]), sha)
        what = api[3] if api else None
        if what == "paths-info":
            wanted = parse_qs(self.body.decode())["paths"]
            return self._json([e for e in _entries(files) if e["path"] in wanted])
        if what == "tree":
            return self._send_tree(files, unquote((api[5] if api else "") or ""), sha)
        if what == "preupload":
            return self._preupload(files, json.loads(self.body))
        if what == "commit":
            return self._commit(repo, ref)
        if what == "tag":
            return self._tag(repo, sha, json.loads(self.body)["tag"])
        if what == "xet-write-token":
            return self._fail(404, "There is no Xet storage here.")
        return self._json(_info(name, sha, files))

    @property
    def url(self) -> str:
        """The server as this client calls it, which may stand behind another one."""
        return f"http://{self.headers['Host']}"

    def _is_known(self) -> bool:
        return self.hub.token is None or self.headers.get("Authorization") == f"Bearer {self.hub.token}"

    def _create(self, asked: dict[str, Any]) -> None:
        name = f"{asked.get('organization') or 'tester'}/{asked['name']}"
        repo = f"datasets/{name}" if asked.get("type") == "dataset" else name
        told = {"url": f"{self.url}/{repo}", "name": name, "id": name}
        with self.hub.lock:
            if repo in self.hub.commits:
                return self._json(told | {"error": "You already created this repo"}, 409)
            self.hub.commit(repo, {".gitattributes": b"*.parquet filter=lfs\n"}, message="initial commit")
        return self._json(told)

    def _list(self, kind: str) -> None:
        """Repositories that have all tags asked for, the author and the part of a name."""
        told = []
        for repo in sorted(self.hub.refs):
            if repo.startswith("datasets/") != (kind == "datasets"):
                continue
            name = repo.removeprefix("datasets/")
            tags = _tags(self.hub.files(repo))
            fits = set(self.queries.get("filter", [])) <= set(tags)
            fits &= self.query.get("author") in (None, name.split("/")[0])
            if fits and self.query.get("search", "").lower() in name.lower():
                told.append(_info(name, self.hub.refs[repo]["main"], self.hub.files(repo)) | {"tags": tags})
        return self._json(told[: int(self.query.get("limit", len(told)))])

    def _xet(self) -> Callable[[], None] | None:
        """What Xet storage answers: a token, what a file is made of, or the block that holds all of it."""
        if XET_TOKEN.fullmatch(self.path):
            told = {"casUrl": f"{self.url}/xet", "accessToken": "of-the-test", "exp": 4_000_000_000}
            return lambda: self._json(
                told,
                headers={
                    "X-Xet-Cas-Url": told["casUrl"],
                    "X-Xet-Access-Token": told["accessToken"],
                    "X-Xet-Token-Expiration": str(told["exp"]),
                },
            )
        found = XET_FILE.fullmatch(self.path) or XET_BLOCK.fullmatch(self.path)
        if found is None:
            return None
        every = (c for commits in self.hub.commits.values() for files in commits.values() for c in files.values())
        content = next(content for content in every if _sha256(content) == found[1])
        chunks = [content[at : at + XET_CHUNK_BYTES] for at in range(0, len(content), XET_CHUNK_BYTES)]
        # A chunk: version, length as stored, how it is compressed (not at all), length.
        sizes = [len(chunk).to_bytes(3, "little") for chunk in chunks]
        block = b"".join(b"\0" + n + b"\0" + n + chunk for n, chunk in zip(sizes, chunks, strict=True))
        if XET_BLOCK.fullmatch(self.path):
            self.hub.bytes_served["xet"] += len(block)
            return lambda: self._send(200, block)
        whole = {"start": 0, "end": len(chunks)}
        place = {"range": whole, "url": f"{self.url}/xet/blocks/{found[1]}"}
        place["url_range"] = {"start": 0, "end": len(block) - 1}
        term = {"hash": found[1], "unpacked_length": len(content), "range": whole}
        told = {"offset_into_first_range": 0, "terms": [term], "fetch_info": {found[1]: [place]}}
        return lambda: self._json(told)

    def _preupload(self, files: Files, asked: dict[str, Any]) -> None:
        told = []
        for entry in asked["files"]:
            name = entry["path"]
            known = {"oid": _oid(name, files[name])} if name in files else {}
            mode = "lfs" if _is_large(name) else "regular"
            told.append({"path": name, "uploadMode": mode, "shouldIgnore": False, **known})
        return self._json({"files": told})

    def _batch(self, repo: str, asked: dict[str, Any]) -> None:
        if repo not in self.hub.commits:
            return self._fail(404, "Repository not found", "RepoNotFound")
        objects = []
        for entry in asked["objects"]:
            href = f"{self.url}/lfs/{entry['oid']}"
            actions = {"upload": {"href": href}, "verify": {"href": href}}
            objects.append(entry if entry["oid"] in self.hub.stored else entry | {"actions": actions})
        return self._json({"transfer": "basic", "objects": objects})

    def _store(self, sha256: str) -> None:
        if self.command == "POST":
            told = json.loads(self.body)
            sound = len(self.hub.stored.get(sha256, b"")) == told["size"]
            return self._json({}) if sound else self._fail(422, "The size differs.")
        if hashlib.sha256(self.body).hexdigest() != sha256:
            return self._fail(400, "The content has another hash.")
        self.hub.stored[sha256] = self.body
        return self._json({})

    def _commit(self, repo: str, ref: str) -> None:
        called, self.hub.before_commit = self.hub.before_commit, None
        if called is not None:
            called()
        lines = [json.loads(line) for line in self.body.splitlines() if line.strip()]
        header = next(line["value"] for line in lines if line["key"] == "header")
        with self.hub.lock:
            head = self.hub.refs[repo].get(ref, ref)
            if header.get("parentCommit") not in (None, head):
                return self._fail(412, "A commit has happened since. Please refresh and try again.")
            files = dict(self.hub.commits[repo][head])
            for line in lines:
                refusal = self._apply(files, line["key"], line["value"])
                if refusal:
                    return self._fail(*refusal)
            if not self.query.get("create_pr"):
                sha = self.hub.commit(repo, files, ref=ref, message=header["summary"])
                return self._json({"commitOid": sha, "commitUrl": f"{self.url}/{repo}/commit/{sha}", "success": True})
            pull = self._open(repo, header["summary"], header.get("description", ""))
            self.hub.refs[repo][f"refs/pr/{pull.num}"] = head
            sha = self.hub.commit(repo, files, ref=f"refs/pr/{pull.num}", message=header["summary"])
        page = f"{self.url}/{repo}/discussions/{pull.num}"
        return self._json({"commitOid": sha, "commitUrl": f"{self.url}/{repo}/commit/{sha}", "pullRequestUrl": page})

    def _apply(self, files: Files, key: str, value: dict[str, Any]) -> tuple[int, str, str] | None:
        """Applies one line of a commit; the refusal, where there is one."""
        name = value.get("path", "")
        if ".." in name.split("/") or name.startswith("/"):
            return 400, f"Invalid path {name}", ""
        if key == "file":
            files[name] = base64.b64decode(value["content"])
            errors = _card_errors(files[name].decode()) if name == "README.md" else []
            return (400, errors[0], "") if errors else None
        if key == "lfsFile":
            known = {_sha256(content): content for content in files.values()} | self.hub.stored
            if value["oid"] not in known:
                return 400, f"Your push was rejected: the large file {name} was never uploaded.", ""
            files[name] = known[value["oid"]]
        if key == "deletedFile":
            if name not in files:
                return 404, "A file with this name doesn't exist", "EntryNotFound"
            del files[name]
        if key == "deletedFolder":
            for inside in [path for path in files if path.startswith(f"{name.rstrip('/')}/")]:
                del files[inside]
        return None

    def _tag(self, repo: str, sha: str, tag: str) -> None:
        if tag in self.hub.refs[repo]:
            return self._fail(409, "Tag reference exists already")
        self.hub.refs[repo][tag] = sha
        self.hub.tags.setdefault(repo, set()).add(tag)
        return self._json({})

    def _refs(self, repo: str) -> None:
        def told(names: list[str], prefix: str) -> list[dict[str, str]]:
            refs = self.hub.refs[repo]
            return [{"name": n, "ref": f"{prefix}{n}", "targetCommit": refs[n]} for n in sorted(names)]

        tags = self.hub.tags.get(repo, set())
        branches = [n for n in self.hub.refs[repo] if n not in tags and not n.startswith("refs/")]
        self._json(
            {
                "branches": told(branches, "refs/heads/"),
                "tags": told(list(tags), "refs/tags/"),
                "converts": [],
            }
        )

    def _open(self, repo: str, title: str, description: str) -> PullRequest:
        pulls = self.hub.pulls.setdefault(repo, [])
        pulls.append(PullRequest(len(pulls) + 1, title, description, self.hub.refs[repo]["main"]))
        return pulls[-1]

    def _discuss(self, repo: str, number: str | None, action: str | None) -> None:
        pulls = self.hub.pulls.setdefault(repo, [])
        if number is None and self.command == "POST":
            asked = json.loads(self.body)
            pull = self._open(repo, asked["title"], asked["description"])
            pull.status = "draft"  # as those are that were not made by a commit
            self.hub.refs[repo][f"refs/pr/{pull.num}"] = pull.base
            return self._json({"num": pull.num})
        if number is None:
            status = self.query.get("status")
            kept = [p for p in pulls if status in (None, "all") or (p.status == "open") == (status == "open")]
            told = [_told(repo, pull) for pull in kept]
            return self._json({"discussions": told, "count": len(told), "start": 0})
        if not number.isdigit() or not 0 < int(number) <= len(pulls):
            return self._fail(404, "Discussion not found")
        pull = pulls[int(number) - 1]
        asked = json.loads(self.body) if self.body else {}
        event = {"id": "1", "createdAt": CREATED, "author": {"name": "tester"}}
        if action == "comment":
            pull.comments.append(asked["comment"])
            return self._json({"newMessage": event | _comment(asked["comment"])})
        if action == "status":
            pull.status = asked["status"]
            pull.comments += [asked["comment"]] if asked.get("comment") else []
            status = {"type": "status-change", "data": {"status": pull.status}}
            return self._json({"newStatus": event | status})
        if action == "merge":
            return self._merge(repo, pull)
        base, head = self.hub.commits[repo][pull.base], self.hub.files(repo, f"refs/pr/{pull.num}")
        changed = sorted(n for n in {*base, *head} if base.get(n) != head.get(n))
        events = [event | _comment(pull.description), *(event | _comment(text) for text in pull.comments)]
        told = _told(repo, pull) | {
            "events": events,
            "changes": {"base": "refs/heads/main", "mergeCommitId": pull.merged_as},
            "filesWithConflicts": [],
            "diff": "".join(f"diff --git a/{name} b/{name}\n" for name in changed),
        }
        return self._json(told)

    def _merge(self, repo: str, pull: PullRequest) -> None:
        base, head = self.hub.commits[repo][pull.base], self.hub.files(repo, f"refs/pr/{pull.num}")
        main = self.hub.files(repo)
        changes = {n: head.get(n) for n in {*base, *head} if base.get(n) != head.get(n)}
        if any(main.get(n) != base.get(n) for n in changes):
            return self._fail(409, "There are conflicts.")
        pull.merged_as = self.hub.change(repo, changes, message=f"{pull.title} (#{pull.num})")
        pull.status = "merged"
        return self._json({})

    def _send_tree(self, files: Files, folder: str, sha: str) -> None:
        recursive = self.query.get("recursive", "false").lower() == "true"
        prefix = f"{folder}/" if folder else ""
        inside = [e for e in _entries(files) if e["path"].startswith(prefix)]
        if folder and not inside:
            return self._send(404, b"{}", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": sha})
        shallow = [e for e in inside if "/" not in e["path"].removeprefix(prefix)]
        return self._json(inside if recursive else shallow)

    def _send_file(self, files: Files, name: str, sha: str) -> None:
        if name not in files:
            return self._send(404, b"{}", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": sha})
        if self.hub.fail_after is not None:
            if self.hub.fail_after == 0:
                return self._send(403, b"{}")
            self.hub.fail_after -= 1
        content, status = files[name], 200
        headers = {"X-Repo-Commit": sha, "ETag": f'"{_oid(name, content)}"', "Accept-Ranges": "bytes"}
        if _is_large(name):
            headers |= {"X-Linked-Etag": headers["ETag"], "X-Linked-Size": str(len(content))}
        if self.hub.xet and _is_large(name):
            token = self.path.split("/resolve/")[0].removeprefix("/")
            token = token if token.startswith("datasets/") else f"models/{token}"
            headers["X-Xet-Hash"] = _sha256(content)
            headers["Link"] = f'<{self.url}/api/{token}/xet-read-token/{sha}>; rel="xet-auth"'
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

    def _fail(self, status: int, message: str, code: str = "") -> None:
        self._json({"error": message}, status, {"X-Error-Code": code} if code else None)

    def _json(self, content: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(content).encode(), {"Content-Type": "application/json"} | (headers or {}))

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        if self.silent:
            return
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _told(repo: str, pull: PullRequest) -> dict[str, Any]:
    kind, name = ("dataset", repo.removeprefix("datasets/")) if "datasets/" in repo else ("model", repo)
    return {
        "num": pull.num,
        "title": pull.title,
        "status": pull.status,
        "isPullRequest": True,
        "author": {"name": "tester"},
        "createdAt": CREATED,
        "repo": {"name": name, "type": kind},
    }


def _comment(text: str) -> dict[str, Any]:
    return {"type": "comment", "data": {"edited": False, "hidden": False, "latest": {"raw": text}}}


def _card_errors(text: str) -> list[str]:
    """What the hub refuses in the block at the top of a card."""
    match = re.match(r"\A---\r?\n(.*?)\r?\n---", text, re.DOTALL)
    if match is None:
        return []
    try:
        block = yaml.safe_load(match[1])
    except yaml.YAMLError as error:
        return [f"Invalid YAML: {str(error).splitlines()[0]}"]
    licence = block.get("license")
    known = licence is None or {licence} <= LICENCES if not isinstance(licence, list) else True
    tags = block.get("tags", [])
    errors = [] if known else [f'"license" must be one of [{", ".join(sorted(LICENCES))}]']
    return errors + ([] if all(isinstance(tag, str) for tag in tags) else ['"tags" must be strings'])


def _tags(files: Files) -> list[str]:
    """What a repository is found by: the tags of its card, and what else the hub takes from there."""
    match = re.match(r"\A---\r?\n(.*?)\r?\n---", files.get("README.md", b"").decode(), re.DOTALL)
    block = yaml.safe_load(match[1]) if match else {}
    licence = block.get("license")
    told = [*block.get("tags", []), *([f"license:{licence}"] if licence else [])]
    return told + ([block["library_name"]] if "library_name" in block else [])


def _info(repo: str, sha: str, files: Files) -> dict[str, Any]:
    return {"id": repo, "modelId": repo, "sha": sha, "siblings": [{"rfilename": name} for name in files]}


def _entries(files: Files) -> list[dict[str, Any]]:
    """All files, and the folders they lie in, as the hub lists them."""
    parents = {name[: end.start()] for name in files for end in re.finditer("/", name)}
    found: list[dict[str, Any]] = [
        {"type": "directory", "path": path, "size": 0, "oid": _blob_id(path.encode())} for path in parents
    ]
    for name, content in files.items():
        entry = {"type": "file", "path": name, "size": len(content), "oid": _blob_id(content)}
        if _is_large(name):
            entry["lfs"] = {"oid": _sha256(content), "size": len(content), "pointerSize": 130}
        found.append(entry)
    return found


def _is_large(name: str) -> bool:
    return name.endswith(LARGE)


def _oid(name: str, content: bytes) -> str:
    return _sha256(content) if _is_large(name) else _blob_id(content)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
