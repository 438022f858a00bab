from __future__ import annotations

import subprocess
import sys

import pytest

from costhub.dataset.features.specs import find_spec
from costhub.errors import ModelError, UnknownNameError
from costhub.models.architectures import ARCHITECTURES, check_options, new_model, options_of


@pytest.mark.parametrize("arch", sorted(ARCHITECTURES))
def test_the_key_is_the_name_the_model_gives_itself(arch: str) -> None:
    model = new_model(arch, feature_spec="demo@1")

    assert (model.arch, model.feature_spec) == (arch, "demo@1")


@pytest.mark.parametrize(
    ("arch", "spec"), [("gbt", "tiles@1"), ("treegru", "loop_context@1"), ("tokens", "trace_tokens@1")]
)
def test_each_reads_what_it_was_made_for(arch: str, spec: str) -> None:
    assert ARCHITECTURES.find(arch).default_spec == find_spec(spec).name


def test_an_unknown_name_is_refused_with_the_close_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"no architecture named 'mpl'\. Did you mean mlp"):
        new_model("mpl", feature_spec="demo@1")


def test_a_name_close_to_nothing_is_refused_with_all_there_are() -> None:
    with pytest.raises(UnknownNameError, match=r"There are mlp, gbt, treegru, .* and tokens\.$"):
        new_model("xyz", feature_spec="demo@1")


@pytest.mark.parametrize(("arch", "foreign"), [("mlp", "xgboost"), ("gbt", "torch")])
def test_one_architecture_does_not_bring_in_the_package_of_another(arch: str, foreign: str) -> None:
    code = (
        "import sys; from costhub.models.architectures import new_model; "
        f"new_model({arch!r}, feature_spec='demo@1'); print({foreign!r} in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_options_are_given_by_name() -> None:
    model = new_model("mlp", feature_spec="demo@1", options={"hidden": "32", "epochs": 3})

    assert (model.config()["hidden"], model.config()["epochs"], model.feature_spec) == (32, 3, "demo@1")
    with pytest.raises(UnknownNameError, match=r"no option of mlp named 'hiden'\. Did you mean hidden"):
        new_model("mlp", feature_spec="demo@1", options={"hiden": 3})


@pytest.mark.parametrize("arch", sorted(ARCHITECTURES))
def test_the_options_found_without_an_architecture_are_its_own(arch: str) -> None:
    assert options_of(arch) == new_model(arch, feature_spec="demo@1").options  # type: ignore[attr-defined]


def test_options_are_checked_before_torch_or_tvm_are_loaded() -> None:
    code = (
        "import sys; from costhub.errors import CosthubError; from costhub.models.architectures import *\n"
        "for arch in 'mlp gbt treegru conditioned blend residual'.split():\n"
        "    try: check_options(arch, {'nope': '1'})\n"
        "    except CosthubError as error: assert 'no option of ' + arch in str(error)\n"
        "    else: raise AssertionError(arch)\n"
        "print({'torch', 'tvm'} & set(sys.modules))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"


def test_options_of_an_architecture_that_has_none_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = type("Plain", (), {"default_spec": "tiles@1", "__init__": lambda self, *, feature_spec: None})
    monkeypatch.setattr(ARCHITECTURES, "_core", {**ARCHITECTURES._core, "plain": plain})

    check_options("plain", {})
    with pytest.raises(ModelError, match="The architecture plain has no options; leave depth out"):
        check_options("plain", {"depth": "3"})
