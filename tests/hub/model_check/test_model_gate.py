"""What a stranger may put into a model folder: each kind ends in a sentence, and in nothing else."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import re
import struct
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file, save_file

from costhub.cards.markdown import join, split
from costhub.cards.model_card import parse, render
from costhub.errors import CosthubError, ModelError
from costhub.hub.model_check import model_gate
from costhub.hub.model_check.model_gate import check_model, find_problem
from costhub.hub.remote.manifest import write_manifest

Spoil = Callable[[Path], object]
HOSTILE: dict[str, tuple[Spoil, str]] = {}


class Bomb:
    """Unpickling it writes a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch exploded",)


def hostile(sentence: str) -> Callable[[Spoil], Spoil]:
    def note(spoil: Spoil) -> Spoil:
        HOSTILE[spoil.__name__] = (spoil, sentence)
        return spoil

    return note


def change_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def change_card(folder: Path, old: str, new: str) -> None:
    path = folder / "README.md"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def change_weights(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    tensors = dict(load_file(folder / "model.safetensors"))
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def raw_weights(folder: Path, header: dict[str, Any], data: bytes = b"") -> None:
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


@hostile("holds scaler.pkl; a model folder has")
def a_pickle(folder: Path) -> None:
    (folder / "scaler.pkl").write_bytes(pickle.dumps(Bomb()))


@hostile("does not begin as a .safetensors file does")
def a_pickle_as_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(pickle.dumps(Bomb()))


@hostile("does not begin as a .ubj file does")
def a_pickle_as_trees(folder: Path) -> None:
    (folder / "model.ubj").write_bytes(pickle.dumps(Bomb()))


@hostile("does not begin as a .json file does")
def a_pickle_as_json(folder: Path) -> None:
    (folder / "evaluation.json").write_bytes(pickle.dumps(Bomb()))


@hostile("does not begin as a .png file does")
def a_pickle_as_a_picture(folder: Path) -> None:
    (folder / "plot.png").write_bytes(pickle.dumps(Bomb()))


@hostile("holds member_0/model.pt; a model folder has")
def a_torch_archive_in_a_member(folder: Path) -> None:
    (folder / "member_0").mkdir()
    with zipfile.ZipFile(folder / "member_0/model.pt", "w") as archive:
        archive.writestr("data.pkl", pickle.dumps(Bomb()))


@hostile("does not begin as a .safetensors file does")
def an_archive_as_weights(folder: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../../outside"))
    (folder / "model.safetensors").write_bytes(buffer.getvalue())


@hostile("holds modeling.py; a model folder has")
def code(folder: Path) -> None:
    (folder / "modeling.py").write_text("import os; os.system('touch exploded')")


@hostile("holds setup; a model folder has")
def a_program(folder: Path) -> None:
    (folder / "setup").write_bytes(b"\x7fELF")


@hostile("holds evaluation.json, a link")
def a_link_to_a_secret(folder: Path) -> None:
    (folder / "evaluation.json").unlink()
    (folder / "evaluation.json").symlink_to("/etc/passwd")


@hostile("holds member_0, a link")
def a_link_to_a_folder(folder: Path) -> None:
    (folder / "member_0").symlink_to("/")


@hostile("is not a plain file")
def a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "notes.md")


@hostile("a hidden file")
def a_hidden_file(folder: Path) -> None:
    (folder / ".bashrc").write_text("touch exploded")


@hostile("a hidden file or a name that no model file has")
def a_name_with_escapes(folder: Path) -> None:
    (folder / "\x1b[2Jx.md").write_text("x")


@hostile("more than 4 deep")
def folders_without_end(folder: Path) -> None:
    (folder / "/".join("abcdef")).mkdir(parents=True)
    (folder / "/".join("abcdef") / "x.md").write_text("x")


@hostile("more than 100 files")
def a_thousand_files(folder: Path) -> None:
    for number in range(120):
        (folder / f"{number}.md").write_text("x")


@hostile("more than a text file of a model needs")
def a_huge_configuration(folder: Path) -> None:
    with (folder / "config.json").open("r+b") as file:
        file.truncate(64 << 20)


@hostile("At most 1,048,576 are read")
def a_huge_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text(" " * (2 << 20))


@hostile("which is not a plain path inside the folder")
def a_manifest_that_leaves_the_folder(folder: Path) -> None:
    files = {"../../etc/passwd": {"sha256": "0" * 64, "size": 1}}
    (folder / "manifest.json").write_text(json.dumps({"version": 1, "revision": "0", "files": files}))


@hostile("which its manifest.json does not list")
def a_file_beside_the_manifest(folder: Path) -> None:
    write_manifest(folder)
    (folder / "more.md").write_text("x")


@hostile("is damaged or was changed")
def weights_changed_after_the_manifest(folder: Path) -> None:
    write_manifest(folder)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"?")


@hostile("has a header of")
def a_header_of_terabytes(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 1 << 40) + b"{" + b" " * 100)


@hostile("has a header that cannot be read")
def a_header_of_brackets(folder: Path) -> None:
    text = b'{"a":' + b"[" * 100_000
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)


@hostile("has a header that cannot be read")
def a_tensor_larger_than_its_place(folder: Path) -> None:
    raw_weights(folder, {"w": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 4]}}, b"1234")


@hostile("describes 4,398,046,511,104 bytes")
def a_tensor_larger_than_its_file(folder: Path) -> None:
    raw_weights(folder, {"w": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}, b"1234")


@hostile("overlap or leave gaps")
def tensors_that_overlap(folder: Path) -> None:
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    raw_weights(folder, {"a": entry, "b": entry}, b"1234")


@hostile("describes 4 bytes of tensors and holds 1,004")
def something_behind_the_tensors(folder: Path) -> None:
    raw_weights(folder, {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"1" * 1004)


@hostile("its tensors are not those that config.json describes")
def a_tensor_nobody_asked_for(folder: Path) -> None:
    change_weights(folder, lambda t: t.update(extra=np.zeros(3, np.float32)))


@hostile("NaN or infinity")
def weights_that_are_no_numbers(folder: Path) -> None:
    change_weights(folder, lambda t: next(v for v in t.values() if v.dtype == np.float32).fill(np.nan))


@hostile("of shape")
def weights_of_another_shape(folder: Path) -> None:
    def flatten(tensors: dict[str, Any]) -> None:
        name = next(name for name, value in tensors.items() if value.ndim == 2)
        tensors[name] = tensors[name].reshape(-1)

    change_weights(folder, flatten)


@hostile("names another arch than")
def another_class(folder: Path) -> None:
    change_config(folder, arch="os.system")


@hostile("unknown key 'auto_map'")
def a_configuration_that_names_code(folder: Path) -> None:
    change_config(folder, auto_map={"AutoModel": "modeling.Evil"})


@hostile("The options of this mlp model do not fit the code")
def options_of_something_else(folder: Path) -> None:
    options = json.loads((folder / "config.json").read_text())["options"]
    change_config(folder, options={**options, "loss": "os.system", "optimizer": "eval"})


@hostile("a key occurs twice")
def a_key_that_occurs_twice(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(path.read_text().replace("{", '{"arch": "gbt",', 1))


@hostile("it holds NaN")
def a_figure_that_is_no_number(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(re.sub(r'"data_rows": \d+', '"data_rows": NaN', path.read_text()))


@hostile("cannot be read as JSON")
def brackets_without_end(folder: Path) -> None:
    (folder / "config.json").write_text("[" * 200_000)


@hostile("it holds an alias")
def a_yaml_bomb(folder: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (folder / "README.md").write_text("---\n" + "\n".join(lines) + "\n---\n# Card\n")


@hostile("is not YAML")
def yaml_that_runs_code(folder: Path) -> None:
    card = '---\na: !!python/object/apply:os.system ["touch exploded"]\n---\n# Card\n'
    (folder / "README.md").write_text(card)


@hostile("is not YAML")
def yaml_without_end(folder: Path) -> None:
    (folder / "README.md").write_text("---\na: " + "[" * 5000 + "\n---\n# Card\n")


@hostile("holds HTML")
def a_script_in_the_card(folder: Path) -> None:
    change_card(folder, "\n# ", "\n<script>alert(1)</script>\n# ")


@hostile("holds HTML")
def a_handler_in_the_card(folder: Path) -> None:
    change_card(folder, "\n# ", "\n<img src=x onerror=alert(1)>\n# ")


@hostile("holds a link to 'JavaScript:alert(1)'")
def a_link_that_runs_code(folder: Path) -> None:
    change_card(folder, "\n# ", "\n[click](JavaScript:alert(1))\n# ")


@hostile("a picture from elsewhere")
def a_picture_that_tells_who_reads(folder: Path) -> None:
    change_card(folder, "\n# ", "\n![](https://example.org/pixel.png)\n# ")


@hostile("does not follow from its own data")
def a_figure_typed_by_hand(folder: Path) -> None:
    path = folder / "README.md"
    head, block, body = path.read_text().split("---\n", 2)
    path.write_text("---\n".join([head, block, re.sub(r"0\.\d\d\d", "0.999", body, count=1)]))


@hostile("shows figures that differ from those in")
def an_evaluation_of_another_model(folder: Path) -> None:
    path = folder / "evaluation.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "totals": {**told["totals"], "top_1": 1.0}}))


def change_block(folder: Path, old: str, new: str) -> None:
    path = folder / "README.md"
    block, body = split(path.read_text())
    block["costhub"] = {**block["costhub"], old: yaml.safe_load(new)}
    path.write_text(join(block, body))


@hostile("values of the wrong kind")
def versions_that_are_a_number(folder: Path) -> None:
    change_block(folder, "versions", "5")


@hostile("values of the wrong kind")
def a_licence_that_is_a_number(folder: Path) -> None:
    change_block(folder, "licence", "5")


@hostile("values of the wrong kind")
def a_noise_floor_that_is_a_word(folder: Path) -> None:
    change_block(folder, "noise_floor", "a")


@hostile("values of the wrong kind")
def a_picture_nobody_knows(folder: Path) -> None:
    told = "{source: a, method: b, trials: 1, chosen: adapted, pictures: [x.png]}"
    change_block(folder, "transfer", told)


@hostile("holds the control character U+001B")
def a_version_with_escapes(folder: Path) -> None:
    change_block(folder, "card_version", '"\\e[2J1"')


@hostile("shows figures that differ from those in config.json")
def figures_in_the_configuration_alone(folder: Path) -> None:
    metrics = json.loads((folder / "config.json").read_text())["metrics"]
    change_config(folder, metrics={**metrics, "top_1": 1.0})


@hostile("has a top_1 of 7")
def figures_beyond_what_there_is(folder: Path) -> None:
    evaluation = json.loads((folder / "evaluation.json").read_text())
    totals = {**evaluation["totals"], "top_1": 7.0}
    (folder / "evaluation.json").write_text(json.dumps({**evaluation, "totals": totals}))
    change_config(folder, metrics=totals)
    card = replace(parse((folder / "README.md").read_text()), totals=totals)
    (folder / "README.md").write_text(render(card))


def change_in_card(folder: Path, **changes: Any) -> None:
    """A card that follows from its own data, which are changed."""
    path = folder / "README.md"
    path.write_text(render(replace(parse(path.read_text()), **changes)))


@hostile("shows figures by operator, device or dataset that differ from evaluation.json")
def figures_of_an_operator_that_no_workload_gives(folder: Path) -> None:
    first, *others = parse((folder / "README.md").read_text()).operators
    change_in_card(folder, operators=[{**first, "top_1": 1.0}, *others])


@hostile("shows figures by operator, device or dataset that differ from evaluation.json")
def figures_of_a_device_that_has_none(folder: Path) -> None:
    change_in_card(folder, devices=[{"device_id": "nvidia-h200", "workloads": 1, "programs": 1, "top_1": 1.0}])


@hostile("shows figures by operator, device or dataset that differ from evaluation.json")
def figures_of_a_dataset_on_which_it_was_not_tested(folder: Path) -> None:
    change_in_card(
        folder, tested=[{"dataset": "lab/one@0123456789ab", **parse((folder / "README.md").read_text()).totals}]
    )


@hostile("shows figures by operator, device or dataset that differ from evaluation.json")
def more_workloads_than_there_are(folder: Path) -> None:
    change_in_card(folder, held_out={"workloads": 4000, "devices": 1, "programs": 10**6})


@hostile("shows figures by operator, device or dataset that differ from evaluation.json")
def another_noise_floor(folder: Path) -> None:
    change_in_card(folder, noise_floor=0.5)


@hostile("has no rows of workloads that a card could show")
def an_evaluation_whose_rows_are_words(folder: Path) -> None:
    evaluation = json.loads((folder / "evaluation.json").read_text())
    (folder / "evaluation.json").write_text(json.dumps({**evaluation, "workloads": ["conv"]}))


@hostile("'a/b; rm -rf ~' as the address of its model")
def a_command_in_the_address(folder: Path) -> None:
    change_in_card(folder, address="a/b; rm -rf ~")


@hostile("there is no evaluation.json")
def figures_from_nowhere(folder: Path) -> None:
    (folder / "evaluation.json").unlink()


@hostile("names another device_id than")
def a_card_of_another_model(folder: Path) -> None:
    change_config(folder, device_id="nvidia-h200")


@hostile("has no card")
def no_card(folder: Path) -> None:
    (folder / "README.md").unlink()


@hostile("is not a model folder")
def no_configuration(folder: Path) -> None:
    (folder / "config.json").unlink()


@hostile("holds a link to 'javascript:alert(1)'")
def a_link_that_runs_code_in_the_data_of_the_card(folder: Path) -> None:
    change_in_card(folder, name="[x](java&#115;cript:alert(1))")


@hostile("holds a picture from elsewhere")
def a_picture_from_elsewhere_in_the_data_of_the_card(folder: Path) -> None:
    change_in_card(folder, name="![a [b] c](https://e.org/x.png)")


@hostile("holds the control character U+001B")
def an_escape_in_the_data_of_the_card(folder: Path) -> None:
    change_in_card(folder, name="a\x1b[2Jb")


@hostile("holds the control character U+202E")
def letters_in_another_order_in_the_data_of_the_card(folder: Path) -> None:
    change_in_card(folder, name="a\u202eb")


def listing(folder: Path) -> dict[str, str]:
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads without a child, which takes seconds to start; test_model_child has the child."""

    def load(folder: Path) -> None:
        problem = find_problem(str(folder))
        if problem:
            raise ModelError(problem)

    monkeypatch.setattr(model_gate, "load_in_child", load)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_folder_ends_in_a_sentence(
    kind: str, sound_model: Any, in_this_process: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil, sentence = HOSTILE[kind]
    folder = sound_model()
    monkeypatch.chdir(tmp_path)
    spoil(folder)
    before = listing(tmp_path)

    with pytest.raises(CosthubError) as refused:
        check_model(folder)

    message = str(refused.value)
    assert sentence in message
    assert message.isprintable()
    assert message.endswith((".", "`.", ")"))
    assert listing(tmp_path) == before
    assert not (tmp_path / "exploded").exists()


def test_there_are_kinds_enough() -> None:
    assert len(HOSTILE) >= 30


@pytest.mark.parametrize("arch", ["mlp", "gbt"])
def test_a_shipped_model_passes(arch: str, sound_model: Any, in_this_process: None) -> None:
    assert check_model(sound_model(arch, manifest=True)).arch == arch


def test_a_model_without_a_card_passes_where_none_is_needed(sound_model: Any, in_this_process: None) -> None:
    folder = sound_model("gbt")
    (folder / "README.md").unlink()

    assert check_model(folder, needs_card=False).device_id == "amd-epyc-zen5-2c"
