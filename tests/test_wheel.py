"""The wheel holds the package, whole, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel_files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The paths in a wheel built from a copy of the checkout, links at the root included.

    A copy, because setuptools leaves build/ in the tree it builds, and the next build packs what lies there.
    """
    tree = tmp_path_factory.mktemp("checkout") / "costhub"
    aside = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "data", "out", "runs", "shared")
    shutil.copytree(ROOT, tree, symlinks=True, ignore=aside)
    shutil.copytree(ROOT / "src/costhub", tree / "src/costhub", dirs_exist_ok=True)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "build",
            "--wheel",
            "--no-isolation",
            "--outdir",
            str(tree / "dist"),
            str(tree),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tree / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_holds_every_file_of_the_package(wheel_files: set[str]) -> None:
    src = ROOT / "src"
    files = {
        path.relative_to(src).as_posix()
        for path in (src / "costhub").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert "costhub/py.typed" in files
    assert files - wheel_files == set()


def test_holds_nothing_but_the_package_and_its_metadata(wheel_files: set[str]) -> None:
    assert {path.split("/")[0].split("-")[0] for path in wheel_files} == {"costhub"}
    assert [path for path in wheel_files if path.endswith(".pyc")] == []


def test_names_the_command_and_the_licences(wheel_files: set[str]) -> None:
    names = {"/".join(path.split("/")[1:]) for path in wheel_files if ".dist-info/" in path}

    place = "licenses/src/costhub/hub/embedded/datasets/costhub"
    imported = ("nvidia-a100", "nvidia-h200", "nvidia-k80", "nvidia-v100", "amd-mi50")
    texts = {f"{place}/{name}/LICENSE.md" for name in imported}
    assert {"entry_points.txt", "licenses/LICENSE", "licenses/NOTICE", *texts} <= names
