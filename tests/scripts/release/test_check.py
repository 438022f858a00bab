"""What a release is checked with: nothing passes for want of a name, or for another version."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from scripts.release import check, rewrite_shards
from scripts.release.walk_package import main as walk
from scripts.release.walk_package import refuse_another_version


def test_a_misspelt_model_is_no_check_that_passes(tmp_path: Path) -> None:
    done = CliRunner().invoke(check.main, ["--model", "costhub/any-cpu-conditoned", "--json", str(tmp_path / "r.json")])

    assert done.exit_code == 2
    assert "no model named 'costhub/any-cpu-conditoned'" in done.output
    assert not (tmp_path / "r.json").exists()


def test_a_package_of_what_was_committed_before_the_version_is_refused() -> None:
    with pytest.raises(click.ClickException, match="commit first"):
        refuse_another_version([Path("costhub-0.0.1-py3-none-any.whl")])


def test_new_licences_keep_the_sizes_and_the_walks(tmp_path: Path) -> None:
    path = tmp_path / "package.json"
    path.write_text(json.dumps({"sizes": {"a.whl": 1}, "rows": [{"failed": None}], "licences": []}))

    CliRunner().invoke(walk, ["--quick", "--json", str(path)])

    found = json.loads(path.read_text())
    assert (found["sizes"], found["rows"]) == ({"a.whl": 1}, [{"failed": None}])
    assert found["licences"]


def test_only_the_datasets_of_the_package_are_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hub" / "datasets" / "acme" / "mine").mkdir(parents=True)
    monkeypatch.setenv("COSTHUB_HUB", str(tmp_path / "hub"))
    written: list[Path] = []
    monkeypatch.setattr(rewrite_shards, "rewrite_folder", lambda folder: written.append(folder) or [])

    CliRunner().invoke(rewrite_shards.main, ["--json", str(tmp_path / "r.json")])

    assert len(written) > 5
    assert not [folder for folder in written if folder.is_relative_to(tmp_path)]
    assert json.loads((tmp_path / "r.json").read_text())["rows"] == []
