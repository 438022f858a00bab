from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from packaging.version import Version

import costhub
from costhub.versions import costhub_version, installed_versions

SRC = str(Path(__file__).parents[1] / "src")


def test_costhub_version_is_a_version_and_the_package_s() -> None:
    assert str(Version(costhub_version())) == costhub.__version__


def test_installed_versions_are_those_of_the_modules_imported() -> None:
    versions = installed_versions()

    assert versions["numpy"] == np.__version__
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))


def test_xgboost_is_found_under_either_distribution() -> None:
    import xgboost

    assert installed_versions()["xgboost"] == xgboost.__version__


def test_asking_for_versions_imports_none_of_the_packages() -> None:
    code = (
        "import sys; from costhub.versions import installed_versions; installed_versions(); "
        "print(*{'tvm', 'tvm_ffi', 'torch', 'xgboost', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": SRC}, capture_output=True, text=True, check=False
    )

    assert (done.stdout.strip(), done.stderr, done.returncode) == ("", "", 0)
