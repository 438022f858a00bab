"""Scenarios with others on the same machine: users, packages, trackers, hubs that are folders, clocks, and words.

They work in the folder that they are started in, say every harm with `steps.harm`, and import nothing of costhub.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from scripts.bench.security.scenarios.steps import alive, children_of, costhub, need, start, tail, wait_until

MODEL = "amd-epyc-zen5-2c-gbt"
SOFTMAX = "softmax.64x1000"
ESCAPE = "\x1b]0;owned\x07"
NOBODY = 65534
OWNED = "document.title='OWNED'"
_MAGIC = struct.pack("<i", 0x2F271)


def _quiet(done: subprocess.CompletedProcess[str], what: str) -> None:
    """No traceback and nothing that a terminal obeys."""
    text = done.stdout + done.stderr
    need("Traceback" not in text and "this is a bug" not in text, f"{what}: {tail(done)[:200]!r}")
    need(not any(c in text for c in "\x1b\x07\x9b\u202e"), f"{what}: escapes reached the terminal")
    need(done.returncode >= 0, f"{what}: ended by signal {-done.returncode}")


def killed_adapt() -> None:
    """Kill -9 of adapt: nothing half-made has the final name, and the next run works."""
    words = ["adapt", MODEL, "--data", "d", "--out", "ad", "--trials", "16"]
    process = start(*words)
    time.sleep(6.0)
    children = children_of(process.pid)
    process.kill()
    process.wait()
    time.sleep(1.0)
    need(not [pid for pid in children if alive(pid)], "children outlived kill -9")
    need(not Path("ad").exists() or costhub("check", "ad").returncode == 0, "half a model has the final name")
    shutil.rmtree("ad", ignore_errors=True)
    again = costhub(*words)
    need(again.returncode == 0, f"the next run failed: {tail(again)}")


def read_while_collecting() -> None:
    """Readers beside a collection see sound rows at every moment."""
    process = start("collect", "--suite", SOFTMAX, "--trials", "60", "--out", "rows")
    wait_until(lambda: any(path.stat().st_size for path in Path("rows").rglob("journal.jsonl")), "a row")
    for _ in range(5):
        done = costhub("stats", "rows", "--json")
        need(done.returncode == 0, f"stats beside collect: {tail(done)}")
    done = costhub("evaluate", MODEL, "--data", "rows", "--all")
    _quiet(done, "evaluate beside collect")
    process.terminate()
    process.wait(60)


def clock_backwards() -> None:
    """A clock that goes back a second at every look."""
    Path("site").mkdir()
    text = "import time\n_now = [time.time()]\ndef _back():\n    _now[0] -= 1\n    return _now[0]\ntime.time = _back\n"
    Path("site/sitecustomize.py").write_text(text)
    env = {**os.environ, "PYTHONPATH": f"{Path('site').resolve()}:{os.environ['PYTHONPATH']}"}
    for words in (
        ["collect", "--suite", SOFTMAX, "--trials", "4", "--out", "rows"],
        ["tune", SOFTMAX, "--trials", "4", "--model", "amd-epyc-zen5-2c", "--out", "out"],
        ["stats", "rows"],
        ["pull", MODEL, "--out", "m2"],
    ):
        done = costhub(*words, env=env)
        need(done.returncode == 0, f"{words[0]}: {tail(done)}")
    done = costhub("check", "rows")
    need("error" not in done.stdout or "no errors" in done.stdout, f"check: {tail(done)}")


def four_pulls() -> None:
    """Four pulls to one place at once: the model there is whole."""
    processes = [start("pull", MODEL, "--out", "out") for _ in range(4)] + [start("pull", MODEL) for _ in range(4)]
    codes = [process.wait(60) for process in processes]
    need(0 in codes[:4], f"none of four pulls succeeded: {codes}")
    need(codes[4:] == [0] * 4, f"pulls into the cache: {codes[4:]}")
    need(costhub("check", "out").returncode == 0, "the model is not whole")
    left = [path.name for path in Path().iterdir() if path.name.startswith(".")]
    need(not left, f"left beside it: {left}")


def added_packages(how: str) -> None:
    """A package that adds an implementation: it may not take a core name, nor bring costhub down."""
    info = Path("site/evil-1.0.dist-info")
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    name = {"shadow": "mlp", "escapes": ESCAPE}.get(how, "evil")
    (info / "entry_points.txt").write_text(f"[costhub.architectures]\n{name} = evil:X\n")
    body = {"raises": "raise RuntimeError('x')", "exits": "raise SystemExit(0)", "missing": ""}.get(how, "X = 1")
    Path("site/evil.py").write_text(f"open('canary', 'w').close()\n{body}\n")
    env = {**os.environ, "PYTHONPATH": f"{os.environ['PYTHONPATH']}:{Path('site').resolve()}"}
    wanted = "mlp" if how in ("shadow", "escapes") else "evil"
    done = costhub("train", "--data", "d", "--arch", wanted, "--out", "out", "--option", "epochs=1", env=env)
    _quiet(done, "train")
    if how == "shadow":
        need(not Path("canary").exists(), "a package took the name of a core architecture")
    if how in ("raises", "exits", "missing"):
        need(done.returncode, "a package without its architecture was accepted")
    _quiet(costhub("train", "--help", env=env), "train --help")


def poisoned_cache(what: str) -> None:
    """A cache that another user may write to: what that user puts there is not believed."""
    cache = Path("shared").resolve()
    env = {**os.environ, "COSTHUB_CACHE": str(cache)}
    if what == "model":
        done = costhub("pull", MODEL, env=env)
        for path in cache.rglob("model.ubj"):
            path.write_bytes(path.read_bytes().replace(b"gbtree", b"gbtrea"))
        _give_away(cache)
        again = costhub("pull", MODEL, env=env)
        sound = b"gbtrea" not in b"".join(path.read_bytes() for path in cache.rglob("model.ubj"))
        need(again.returncode or sound, "a spoilt copy in the cache was handed out")
        print(tail(again))
        return
    words = ["evaluate", MODEL, "--data", "d", "--all", "--json"]
    done = costhub(*words, env=env)
    need(done.returncode == 0, tail(done))
    sound_figures = done.stdout
    parts = _poison(cache)
    _give_away(cache)
    done = costhub(*words, env=env)
    need(done.returncode or done.stdout == sound_figures, f"{parts} poisoned parts of another user were believed")
    print(parts, tail(done))


def _poison(cache: Path) -> int:
    """Features of zeros in the place of every part, sealed as costhub seals."""
    code = """
import sys
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
from costhub.dataset.shards import shard
SEAL_KEY, BLANK = shard.SEAL_KEY, getattr(shard, "BLANK_SEAL", None) or shard.BLANK
for path in Path(sys.argv[1]).rglob("part-*.parquet"):
    table = pq.ParquetFile(path).read()
    zeros = [bytes(len(rows)) for rows in table["rows"].to_pylist()]
    table = table.set_column(2, table.schema.field(2), pa.array(zeros, pa.binary()))
    kept = {k: v for k, v in table.schema.metadata.items() if k != SEAL_KEY.encode()}
    with pq.ParquetWriter(path, table.schema.with_metadata(kept), compression="zstd") as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({SEAL_KEY: BLANK})
    shard.write_seal(path)
    print(path)
"""
    done = subprocess.run([sys.executable, "-c", code, str(cache)], check=True, capture_output=True, text=True)
    return len(done.stdout.splitlines())


def _give_away(folder: Path) -> None:
    """Another user owns it, and everybody may write there."""
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        if path.is_dir():
            path.chmod(0o777)


def swept_links() -> None:
    """Folders that another user has prepared under the names of scratch folders: sweeping follows no link."""
    tmp = Path(os.environ["TMPDIR"])
    home = Path("home").resolve()
    (tmp / "costhub-build-link").symlink_to(home)
    (tmp / "costhub-new-link").symlink_to(home)
    for name in ("pipe", "lock", "inside"):
        folder = tmp / f"costhub-build-{name}"
        folder.mkdir()
        (folder / "x").symlink_to(home)
    os.mkfifo(tmp / "costhub-build-pipe" / "owner.lock")
    (tmp / "costhub-build-lock" / "owner.lock").symlink_to(home / "secret.txt")
    (tmp / "costhub-build-inside" / "owner.lock").write_text("")
    (tmp / "costhub-build-file").write_text("")
    before = (home / "secret.txt").read_bytes()
    old = time.time() - 86_400
    for path in tmp.iterdir():
        os.utime(path, (old, old), follow_symlinks=False)
    done = costhub("collect", "--suite", SOFTMAX, "--trials", "2", "--out", "rows")
    need(done.returncode == 0, tail(done))
    need((home / "secret.txt").exists() and (home / "secret.txt").read_bytes() == before, "the user's file is gone")


TRACKER_ANSWERS: dict[str, bytes] = {
    "garbage": struct.pack("<i", 9) + b"{not json",
    "huge": struct.pack("<i", 0x7FFFFFFF) + b"[",
    "negative": struct.pack("<i", -5) + b"[",
    "object": struct.pack("<i", 8) + b'{"a": 1}',
    "empty": struct.pack("<i", 2) + b"[]",
    "null": struct.pack("<i", 9) + b"[0, null]",
    "deep": struct.pack("<i", 200_000) + b"[" * 200_000,
    "nothing": b"",
}


def tracker_lies(how: str) -> None:
    """A tracker that answers what no tracker does."""
    names = [{"addr": ["127.0.0.1\n" + ESCAPE, 9], "key": f"server:{ESCAPE}\nk"}]
    text = json.dumps([0, {"server_info": names, "queue_info": {"k": {"free": 1}}}]).encode()
    wrong = json.dumps([0, {"server_info": [{"addr": 5, "key": None}], "queue_info": 7}]).encode()
    more = {"names": struct.pack("<i", len(text)) + text, "types": struct.pack("<i", len(wrong)) + wrong}
    answer = {**TRACKER_ANSWERS, **more}[how]
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            with contextlib.suppress(OSError), connection:
                connection.sendall(_MAGIC)
                connection.recv(4096)
                connection.sendall(answer)
                time.sleep(30 if how == "nothing" else 1)

    threading.Thread(target=serve, daemon=True).start()
    done = costhub("board", "list", "--tracker", f"127.0.0.1:{listener.getsockname()[1]}")
    _quiet(done, how)
    print(tail(done))


def hub_folder(how: str) -> None:
    """A shared hub whose index of devices is hostile."""
    hub = Path("hub")
    (hub / "models").mkdir(parents=True)
    index = hub / "devices.json"
    device = {"device_id": "x", "kind": "cpu", "aliases": []}
    contents: dict[str, object] = {
        "numbers": [1, 2],
        "object": {"a": {}},
        "types": {"devices": [{"device_id": 5, "kind": None, "aliases": 7}]},
        "escapes": {"devices": [{**device, "device_id": ESCAPE, "aliases": [ESCAPE], "model_name": ESCAPE}]},
        "described": {"devices": [{**device, "vendor": ESCAPE, "microarchitecture": ESCAPE, "cores": "9" * 99}]},
        "long": {"devices": [{**device, "aliases": ["a" * 10**6]}]},
        "shadow": {"devices": [{**device, "device_id": "nvidia-h200", "kind": "cpu", "vendor": "EVIL"}]},
        "up": {"devices": [{**device, "device_id": "../../x"}]},
    }
    if how == "pipe":
        os.mkfifo(index)
    elif how == "huge":
        with index.open("wb") as file:
            file.truncate(1 << 40)
    elif how == "deep":
        index.write_text("[" * 100_000 + "]" * 100_000)
    else:
        index.write_text(json.dumps(contents[how]))
    env = {**os.environ, "COSTHUB_HUB": str(hub.resolve())}
    for words in (
        ["devices"],
        ["devices", "x"],
        ["pull", "x", "--out", "out"],
        ["site", "--hub", "hub", "--out", "public"],
    ):
        done = costhub(*words, env=env, timeout=20)
        _quiet(done, f"{words[0]}")
    if how == "shadow":
        shown = costhub("devices", "nvidia-h200", env=env).stdout
        print("a shared hub describes nvidia-h200 anew" if "EVIL" in shown else "the index of the package stays")


def site_of_hub() -> None:
    """The page of a hostile hub, shown by a real browser: no script of a stranger runs."""
    model = Path("hub/models/acme/m")
    model.parent.mkdir(parents=True)
    shutil.copytree("m", model)
    payloads = [f'<img src=x onerror="{OWNED}">', f"<script>{OWNED}</script>", f"[x](javascript:{OWNED})"]
    card = (model / "README.md").read_text() + "\n\n" + "\n\n".join(payloads) + "\n"
    (model / "README.md").write_text(card)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"data_credit": payloads[0], "licence": payloads[1]}))
    (model / "manifest.json").unlink()
    data = Path("hub/datasets/acme/d")
    data.parent.mkdir(parents=True)
    shutil.copytree("d", data)
    (data / "README.md").write_text((data / "README.md").read_text() + "\n\n" + "\n\n".join(payloads) + "\n")
    device = {
        "device_id": "x",
        "kind": "cpu",
        "aliases": [payloads[0]],
        "vendor": payloads[1],
        "model_name": payloads[0],
    }
    Path("hub/devices.json").write_text(json.dumps({"devices": [device]}))
    done = costhub("site", "--hub", "hub", "--out", "public")
    _quiet(done, "site")
    costhub("stats", "d", "--page", "public/stats.html")
    pages = sorted(Path("public").glob("*.html"))
    need(len(pages) > 1, "the site has no page")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("no browser is installed here")
    for page in pages:
        words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom"]
        shown = subprocess.run(
            [*words, page.resolve().as_uri()],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=_any_address_space,
        )
        need("<title>OWNED" not in shown.stdout, f"a stranger's script ran in {page.name}")
        need("<html" in shown.stdout, f"the browser showed nothing of {page.name}")
    print("shown by", browser)


def _any_address_space() -> None:
    """A browser maps terabytes and uses little of them."""
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def odd_words() -> None:
    """Words of the command line that a terminal would obey, or that are no text at all."""
    for word in (ESCAPE, "\u202egpj", "a\nb", "\udcff", "", "x" * 100_000, "../../x", "$(touch canary)"):
        lines = "pull W|devices W|check W|stats W|card W|split W|evaluate W --data W|tune W --out o|review W|W"
        lines += "|collect --suite W --out o|train --data W --out o|publish W --to W|contribute W --to W"
        lines += "|site --hub W --out o|import metaschedule W --device W --out o|board list --tracker W"
        for words in ([word if each == "W" else each for each in line.split()] for line in lines.split("|")):
            done = costhub(*words, errors="surrogateescape")
            _quiet(done, f"{words[0][:20]!r} {word[:20]!r}")
    need(not Path("canary").exists(), "a word was run")
