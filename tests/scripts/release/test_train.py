"""What a release writes into the configuration of a model, beside what `costhub train` does."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.release.train import RELEASES, put_credit


def credit_of(place: Path, device: str) -> str:
    (release,) = [each for each in RELEASES if (each.device, each.arch) in ((device, "blend"), (device, "conditioned"))]
    config = {"arch": release.arch, "device_id": device, "data_credit": "whoever", "seed": 0}
    (place / "config.json").write_text(json.dumps(config))

    put_credit(place, release)

    written = json.loads((place / "config.json").read_text())
    assert written == {**config, "data_credit": written["data_credit"]}
    return str(written["data_credit"])


def test_a_model_of_several_datasets_credits_those_of_each_as_its_card_says(tmp_path: Path) -> None:
    replayed = "microsoft/nnfusion (MIT; replayed from logs of Ansor)"

    assert credit_of(tmp_path, "nvidia-h200") == "measurer not recorded (Apache-2.0), lac-dcc/bennu (MIT)"
    assert credit_of(tmp_path, "any-gpu") == f"lac-dcc/bennu (MIT), measurer not recorded (Apache-2.0), {replayed}"
    assert credit_of(tmp_path, "nvidia-k80") == replayed
