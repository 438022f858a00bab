"""`costhub pull` from a hub: what arrives, what is refused, and what is a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from costhub.cli import main
from costhub.dataset.programs import Programs
from costhub.hub.remote.manifest import verify, write_manifest
from costhub.models.folder import save_model
from costhub.models.networks.mlp import Mlp
from costhub.models.networks.network_options import MlpOptions
from costhub.models.train import describe_model

SRC = Path(__file__).parents[3] / "src"


@dataclass(frozen=True)
class Done:
    """What a command ended with."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """The files of a model repository, and one that the hub adds on its own."""
    programs = Programs.from_list(
        [np.full((1, 164), float(i)) for i in range(4)], np.zeros(4, int), ("w",), np.arange(1, 5) * 1e-3
    )
    model = Mlp(feature_spec="per_store@1", options=MlpOptions(hidden=4, epochs=1))
    model.fit(programs, None, seed=0, progress=False)
    folder = tmp_path / "published"
    save_model(model, folder, describe_model(model, programs, device_id="acme-one", seed=0, licence="MIT"))
    write_manifest(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()} | {".gitattributes": b"*.ubj lfs"}


@pytest.fixture
def pull(tmp_path: Path, hugging_face: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `costhub pull` against the server, in this process."""
    monkeypatch.setenv("COSTHUB_CACHE", str(tmp_path / "cache"))

    def run(*arguments: str) -> Done:
        return Done(main.run(["pull", *arguments]), *capsys.readouterr())

    return run


def pull_in_a_process(tmp_path: Path, url: str, *arguments: str, **environment: str) -> Done:
    """Runs `costhub pull` as people do: the client reads its settings from the environment."""
    # Nothing of the caller's Hugging Face settings may reach the test, a token least of all.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "COSTHUB_"))}
    env |= {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"}
    env |= {"COSTHUB_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(SRC), **environment}
    command = [sys.executable, "-c", "from costhub.cli.main import main; main()", "pull", *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    return Done(done.returncode, done.stdout, done.stderr)


def test_a_repository_is_fetched_pinned_and_verified(pull: Run, server: Any, files: dict[str, bytes]) -> None:
    commit = server.commit("acme/one-mlp", files)

    done = pull("hf-hub:acme/one-mlp")

    assert done.code == 0
    assert f"at commit {commit[:12]}" in done.err
    folder = Path(done.out.removesuffix("\n"))
    assert set(verify(folder).files) == {"config.json", "model.safetensors"}
    # Only the first question may leave the commit open: a push in between cannot mix two versions.
    asked = [request for request in server.requests if "/one-mlp" in request]
    assert asked[0] == "GET /api/models/acme/one-mlp"
    assert [request for request in asked[1:] if commit not in request] == []


def test_a_tag_pins_an_older_commit(pull: Run, server: Any, files: dict[str, bytes], tmp_path: Path) -> None:
    server.commit("acme/one-mlp", files, ref="v1")
    server.commit("acme/one-mlp", {"README.md": b"emptied"})

    assert pull("hf-hub:acme/one-mlp@v1", "--out", str(tmp_path / "old")).code == 0
    newest = pull("hf-hub:acme/one-mlp")
    assert newest.code == 2
    assert "holds no config.json" in newest.err


@pytest.mark.slow
def test_what_was_pulled_once_needs_no_network(server: Any, files: dict[str, bytes], tmp_path: Path) -> None:
    server.commit("acme/one-mlp", files)
    first = pull_in_a_process(tmp_path, server.url, "hf-hub:acme/one-mlp")
    server.requests.clear()

    again = pull_in_a_process(tmp_path, server.url, "hf-hub:acme/one-mlp", HF_HUB_OFFLINE="1")

    assert (again.code, again.out) == (0, first.out)
    assert server.requests == []


def test_files_that_no_model_has_are_not_fetched(pull: Run, server: Any, files: dict[str, bytes]) -> None:
    server.commit("acme/one-mlp", files | {"evil.pkl": b"cos\nsystem", "run.py": b"boom"})

    assert pull("hf-hub:acme/one-mlp").code == 0
    assert [request for request in server.requests if request.endswith((".pkl", ".py"))] == []


def test_a_corrupted_file_is_refused(pull: Run, server: Any, files: dict[str, bytes], tmp_path: Path) -> None:
    weights = files["model.safetensors"]
    server.commit("acme/one-mlp", files | {"model.safetensors": weights[:-1] + bytes([weights[-1] ^ 1])})

    done = pull("hf-hub:acme/one-mlp", "--out", str(tmp_path / "mine"))

    assert done.code == 2
    assert done.err.startswith("costhub: ")
    assert "is damaged or was changed" in done.err
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("config.json", lambda text: text.replace(b"{", b'{"auto_map": "evil.Model",', 1), "key 'auto_map'"),
        ("model.safetensors", lambda found: b"\x80\x04" + found[2:], "model.safetensors"),
    ],
)
def test_what_a_stranger_wrote_is_looked_at_before_it_is_there(
    pull: Run,
    server: Any,
    files: dict[str, bytes],
    tmp_path: Path,
    name: str,
    change: Callable[[bytes], bytes],
    sentence: str,
) -> None:
    folder = tmp_path / "published"
    (folder / name).write_bytes(change(files[name]))
    write_manifest(folder)  # The hashes are right: the stranger wrote them.
    server.commit("acme/evil", {path.name: path.read_bytes() for path in folder.iterdir()})

    done = pull("hf-hub:acme/evil")

    assert done.code == 2
    assert sentence in done.err
    assert "Traceback" not in done.err
    assert list((tmp_path / "cache").rglob("config.json")) == []


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("hf-hub:acme/nothing", "hf-hub:acme/nothing does not exist at http://127.0.0.1"),
        ("hf-hub:acme/one-mlp@v9", "hf-hub:acme/one-mlp has no revision 'v9'"),
        ("hf-hub:acme/one--mlp", "is not a name the Hugging Face hub allows"),
        ("hf-hub:acme/closed", "hf-hub:acme/closed is gated"),
    ],
)
def test_what_the_hub_does_not_have_is_a_sentence(
    pull: Run, server: Any, files: dict[str, bytes], address: str, sentence: str
) -> None:
    server.commit("acme/one-mlp", files)
    server.gated.add("acme/closed")

    done = pull(address)

    assert done.code == 2
    assert sentence in done.err
    assert len(done.err.splitlines()) == 1


def test_a_repository_too_large_for_a_model_is_not_fetched(pull: Run, server: Any) -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return 3 << 30

    server.commit("acme/huge", {"model.safetensors": Huge(b"x"), "config.json": b"{}"})

    done = pull("hf-hub:acme/huge")

    assert done.code == 2
    assert "more than the" in done.err
    assert [request for request in server.requests if "/resolve/" in request] == []


def test_without_a_listing_only_the_cache_is_used(
    pull: Run, server: Any, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import HfApi
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # documented, but not re-exported

    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)  # between attempts of the client
    server.commit("acme/one-mlp", files)
    fault = SimpleNamespace(request="/tree/", status=None, times=1000, after=False)
    server.faults.append(fault)
    with pytest.raises(httpx.TransportError):
        list(HfApi().list_repo_tree("acme/one-mlp"))
    fault.times = 1000 - fault.times  # one listing fails, the next one would not

    done = pull("hf-hub:acme/one-mlp")

    assert fault.times == 0
    assert done.code == 1
    assert "could not be fetched" in done.err.splitlines()[-1]
    assert [request for request in server.requests if "/resolve/" in request] == []
    assert pull("hf-hub:acme/one-mlp").code == 0


def test_a_hub_that_cannot_be_reached_is_a_sentence(pull: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")

    done = pull("hf-hub:acme/one-mlp")

    assert done.code == 1  # trying again may help
    assert "could not be fetched from http://127.0.0.1:9" in done.err
    assert len(done.err.splitlines()) == 1
