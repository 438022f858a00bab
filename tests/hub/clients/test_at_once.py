"""Several people at once, each a process of its own: nothing of anybody is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DATASET, MODEL = "datasets/acme/data", "acme/model"
CODE = "from costhub.cli.main import main; main({!r})"


def at_once(environment: dict[str, str], tmp_path: Path, *commands: list[str]) -> list[tuple[int, str, str]]:
    """Runs commands of costhub together, each with a cache of its own; what they return, print and tell."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CODE.format(command)],
            env={**environment, "HF_HOME": str(tmp_path / f"hf-{number}")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, command in enumerate(commands)
    ]
    told = [process.communicate(timeout=300) for process in processes]
    return [(process.returncode, *texts) for process, texts in zip(processes, told, strict=True)]


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.slow
def test_two_contributors_get_a_whole_pull_request_each(
    environment: dict[str, str], server: Any, rows: dict[str, bytes], measured: Any, tmp_path: Path
) -> None:
    server.commit(DATASET, rows)
    folders = [measured(tmp_path / name, start, 20) for name, start in (("one", 100), ("two", 200))]

    done = at_once(
        environment,
        tmp_path,
        *(["contribute", str(f), "--to", "hf-hub:acme/data", "--yes", "--json"] for f in folders),
    )

    assert [code for code, _, _ in done] == [0, 0], done
    told = [json.loads(said) for _, said, _ in done]
    assert {pull.num for pull in server.pulls[DATASET]} == {1, 2}
    for folder, said in zip(folders, told, strict=True):
        ref = "refs/pr/" + said["url"].rsplit("/", 1)[1]
        inbox = f"contributions/{said['id']}/"
        arrived = {
            path.removeprefix(inbox): content
            for path, content in server.files(DATASET, ref).items()
            if path.startswith(inbox)
        }
        ours = files_of(folder)
        assert {path.split("/")[0] for path in arrived} == {"devices", "workloads", "measurements"}
        assert arrived == {path: ours[path] for path in arrived}
        # Nothing but the contribution: the other's is in a pull request of its own.
        assert set(server.files(DATASET, ref)) == {*rows, *(inbox + path for path in arrived)}


def test_one_contribution_sent_twice_at_once_is_one_pull_request(
    environment: dict[str, str], server: Any, rows: dict[str, bytes], measured: Any, tmp_path: Path
) -> None:
    """Two runs that both find none open one each, and the later one closes its own."""
    server.commit(DATASET, rows)
    command = ["contribute", str(measured(tmp_path / "one", 100, 20)), "--to", "hf-hub:acme/data", "--yes"]

    done = at_once(environment, tmp_path, command, command)

    assert [code for code, _, _ in done] == [0, 0], done
    assert [pull.num for pull in server.pulls[DATASET] if pull.status == "open"] == [1]
    assert all("/discussions/1" in said for _, said, _ in done)


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(True, marks=pytest.mark.slow, id="of the same version"),
        pytest.param(False, id="of two versions"),
    ],
)
def test_two_publishers_of_one_model_leave_a_whole_one(
    environment: dict[str, str], server: Any, sound_model: Any, tmp_path: Path, same: bool
) -> None:
    one = sound_model("gbt")
    other = one if same else sound_model("mlp")
    commands = [["publish", str(folder), "--to", "hf-hub:acme/model", "--yes"] for folder in (one, other)]

    done = at_once(environment, tmp_path, *commands)

    # Whoever is second says so where the other's version would go, and is done where it is the same.
    codes = sorted(code for code, _, _ in done)
    assert codes in ([0, 0], [0, 1]), done
    if codes == [0, 1]:
        assert not same
        (told,) = (said for code, _, said in done if code)
        assert told.startswith("costhub: ")
        assert "changed by someone else in the meantime. Run the command again." in told
    ends = {
        name: content
        for name, content in server.files(MODEL).items()
        if name not in (".gitattributes", "manifest.json")
    }
    listed = json.loads(server.files(MODEL)["manifest.json"])["files"]
    assert set(listed) == set(ends)
    # Every version that the branch ever had is one of the two, whole.
    weights = [set(files) & {"model.ubj", "model.safetensors"} for files in server.commits[MODEL].values()]
    assert [found for found in weights if len(found) > 1] == []
