"""What the child that compiles answers: libraries and inputs, or why not."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from costhub.search.whole_network.build_service import (
    BuildNetworkReply,
    BuildNetworkRequest,
    distinguishing_input,
    handle,
)


def test_a_relax_module_is_compiled_with_all_its_arguments_as_inputs(
    relax_file: Path, database: Path, target: str, tmp_path: Path
) -> None:
    tuned, untuned = (tmp_path / name for name in ("tuned.so", "untuned.so"))

    found = handle(BuildNetworkRequest(str(relax_file), target, str(database), str(tuned), str(untuned)))

    assert isinstance(found, BuildNetworkReply), found
    assert found.compiled.tuned == 2
    assert found.inputs[0].shape == (1, 3, 32, 32)
    assert len(found.inputs) == 7  # three layers with weights and biases
    assert tuned.is_file()
    assert untuned.is_file()


def test_what_tvm_cannot_read_is_a_reason(tmp_path: Path, target: str) -> None:
    path = tmp_path / "no.json"
    path.write_text("{}")

    said = handle(BuildNetworkRequest(str(path), target, str(tmp_path), str(tmp_path / "a.so"), str(tmp_path / "b.so")))

    assert isinstance(said, str)
    assert "TVM's JSON" in said


def test_an_example_that_tells_nothing_is_replaced() -> None:
    assert distinguishing_input(np.zeros((2, 3), np.float32)).std() > 0.1
    words = np.array([3, 3, 3])
    assert distinguishing_input(words) is words
