from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from costhub.errors import CosthubError, UnknownNameError
from costhub.registry import Registry


def registry() -> Registry[object]:
    core: dict[str, object] = {"own": 1, "lazy": "costhub_lazy_module:VALUE"}
    return Registry("method", core, group="costhub.test_methods", listing="`costhub adapt --help`")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, for modules and for the metadata of packages."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def install(site: Path, package: str, *lines: str) -> None:
    metadata = site / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("\n".join(["[costhub.test_methods]", *lines]) + "\n")


def test_costhubs_own_come_first_and_packages_follow_by_name(site: Path) -> None:
    install(site, "alpha", "zebra = json:dumps")
    install(site, "beta", "ape = json:loads")

    assert list(registry()) == ["own", "lazy", "ape", "zebra"]
    assert len(registry()) == 4
    assert "ape" in registry()
    assert "unknown" not in registry()


def test_what_a_name_stands_for_is_imported_when_it_is_asked_for(site: Path) -> None:
    (site / "costhub_lazy_module.py").write_text("VALUE = 42\n")
    (site / "costhub_plugin.py").write_text("class Mine: ...\n")
    install(site, "alpha", "mine = costhub_plugin:Mine")
    names = registry()

    assert "lazy" in names
    assert "mine" in list(names)
    assert not {"costhub_lazy_module", "costhub_plugin"} & set(sys.modules)
    assert names["lazy"] == 42
    assert names.find("mine").__name__ == "Mine"  # type: ignore[attr-defined]


def test_entry_points_are_not_looked_up_for_a_name_of_costhubs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked_up(**_: str) -> None:
        raise AssertionError

    monkeypatch.setattr("costhub.registry.entry_points", looked_up)

    assert registry().find("own") == 1


def test_an_unknown_name_is_refused_with_the_close_ones(site: Path) -> None:
    install(site, "alpha", "momentum = json:loads")

    with pytest.raises(UnknownNameError, match=r"no method named 'momentun'. Did you mean momentum\? `costhub adapt"):
        registry().find("momentun")
    with pytest.raises(KeyError):
        registry()["momentun"]


def test_two_packages_that_add_one_name_are_refused(site: Path) -> None:
    install(site, "alpha", "mine = json:loads")
    install(site, "beta", "mine = json:dumps")

    with pytest.raises(CosthubError, match=r"The method 'mine' comes from (alpha and from beta|beta and from alpha)\."):
        list(registry())


def test_a_package_that_adds_a_name_of_costhubs_own_is_refused(site: Path) -> None:
    install(site, "alpha", "own = json:loads")

    with pytest.raises(CosthubError, match=r"The method 'own' comes from costhub and from alpha\."):
        list(registry())
    assert registry().find("own") == 1


def test_a_package_that_cannot_be_loaded_is_named(site: Path) -> None:
    install(site, "alpha", "mine = costhub_no_such_module:Mine")

    with pytest.raises(CosthubError, match=r"'mine' of alpha cannot be loaded \(ModuleNotFoundError: "):
        registry().find("mine")


def test_the_module_itself_loads_nothing_heavy() -> None:
    heavy = ("numpy", "torch", "xgboost", "tvm")
    code = f"import sys, costhub.registry; print([m for m in {heavy} if m in sys.modules])"

    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_package_that_ends_the_process_is_a_sentence(site: Path) -> None:
    (site / "costhub_leaving.py").write_text("raise SystemExit(0)\n")
    install(site, "alpha", "leaving = costhub_leaving:X")

    with pytest.raises(CosthubError, match="of alpha cannot be loaded"):
        registry().find("leaving")


def test_a_name_that_nobody_can_type_is_left_out(site: Path) -> None:
    install(site, "alpha", "\x1b]0;owned\x07 = json:dumps", "mine = json:loads")

    assert list(registry()) == ["own", "lazy", "mine"]
