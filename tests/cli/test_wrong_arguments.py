"""A wrong argument is refused before anything that takes seconds to import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HEAVY = {"tvm", "torch", "xgboost", "datasets", "matplotlib"}
WRONG = """\
devices nope
probe --kind cuda --threads 2
pull nope
collect --out d
collect --suite nope --out d
collect --network nope --out d
collect --suite resnet18 --out d --tracker x:1
collect --suite resnet18 --out d --shares nope=1
collect --suite resnet18 --out d --device nope
collect --suite resnet18 --out d --budget soon
import metaschedule nope --device x --out d
import ansor nope --device x --out d
import ansor nope --device nvidia-h200 --out d
check nope
stats nope
contribute nope --to hf-hub:a/b
review nope
publish nope --to hf-hub:a/b
site --out d --hub nope
site --out d --searches nope
export metaschedule nope --out d
split nope
train --data nope --out m
train --data nope --out m --arch nope
train --data nope --out m --option nope
evaluate nope --data nope
card nope
card nope --split x
adapt nope --out m
adapt auto --out m --method nope
adapt auto --out m --data nope
adapt auto --out m --suite nope
adapt auto --out m --split x
estimate
estimate nope
estimate softmax --device nope
estimate softmax --device nope.json
estimate softmax --device any-cpu
estimate softmax --device {}
estimate softmax --data nope
estimate softmax --interval 1
estimate softmax --trials 0
compile --out t
compile nope --out t
compile softmax --out t --source nope
compile softmax --out t --device nope
compile softmax --out t --device nvidia-h200
compile softmax --out t --device {}
compile softmax --out t --without nope
compile softmax --out t --data nope
compile softmax --out t --model nope
compile softmax --out t --pool 0
compile softmax --out t --space nope
tune --out t
tune nope --out t
tune softmax --out t --method nope
tune softmax --out t --strategy nope
tune softmax --out t --select nope
tune softmax --out t --space nope
tune softmax --out t --space cuda
tune softmax --out t --model nope
tune softmax --out t --device nope
tune softmax --out t --draft nope
tune softmax --out t --beside nope
tune softmax --out t --beside openvino
tune lstm --out t --beside openvino --device cuda
tune nope.pt2 --out t
tune text.pt2 --out t
collect --network text.pt2 --out d
tune nope.json --out t
board serve --tracker x --key k"""


def test_a_wrong_argument_is_refused_before_heavy_imports(tmp_path: Path) -> None:
    code = (
        "import json, sys\n"
        "from costhub.cli.main import run\n"
        "for line in json.loads(sys.argv[1]):\n"
        "    code = run(line.split())\n"
        f"    print(json.dumps([line, code, sorted({HEAVY!r} & set(sys.modules))]))\n"
    )

    (tmp_path / "text.pt2").write_text("not a network")
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(WRONG.splitlines())],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line for line, _, _ in answers] == WRONG.splitlines()
    assert [(line, loaded) for line, _, loaded in answers if loaded] == []
    assert [line for line, code, _ in answers if code == 0] == []
    assert [path.name for path in tmp_path.iterdir()] == ["text.pt2"]
