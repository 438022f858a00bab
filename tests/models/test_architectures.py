from __future__ import annotations

import subprocess
import sys

import pytest

from costhub.dataset.features.specs import find_spec
from costhub.errors import UnknownNameError
from costhub.models.architectures import ARCHITECTURES, new_model


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
    with pytest.raises(UnknownNameError, match="Did you mean mlp or gbt or treegru or conditioned"):
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
