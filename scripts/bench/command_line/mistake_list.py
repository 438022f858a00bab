"""Provides MISTAKES, the mistakes that are tried at the command line, and the folder in which they are made."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from costhub.hub.catalogue.hubs import EMBEDDED


@dataclass(frozen=True)
class Mistake:
    """A wrong command."""

    about: str
    """What it is about: the verb, or `all` for the command line as a whole."""
    words: str
    """What is typed after `costhub`."""
    names: str
    """A part of the answer that shows that it is about the mistake."""
    code: int = 2
    """The exit code that the rule asks for."""


def make_folder(root: Path) -> None:
    """Puts into `root` what the mistakes name.

    `data` is a data folder (of the H200), `model` a model folder (of the H200), `search` a MetaSchedule database
    without records, `empty` and `used` are folders, and there is a file of each kind that is not what its name says.
    """
    shutil.copytree(EMBEDDED / "datasets/costhub/nvidia-h200", root / "data")
    shutil.copytree(EMBEDDED / "models/costhub/nvidia-h200-gbt", root / "model")
    shutil.copytree(EMBEDDED / "models/costhub/nvidia-h200-gbt", root / "broken-model")
    (root / "broken-model/config.json").write_text("{")
    for name in ("empty", "used", "search"):
        (root / name).mkdir()
    for name in ("workload", "tuning_record"):
        (root / f"search/database_{name}.json").touch()
    (root / "used/notes.txt").write_text("mine\n")
    (root / "file.txt").write_text("mine\n")
    (root / "broken.json").write_text("{")
    (root / "list.json").write_text(json.dumps([1]))
    (root / "text.pt2").write_text("not a network\n")
    (root / "own.py").write_text("NUMBER = 3\n")


def _of(about: str, *tried: tuple[str, str] | tuple[str, str, int]) -> tuple[Mistake, ...]:
    return tuple(Mistake(about, *each) for each in tried)


MISTAKES = (
    *_of(
        "all",
        ("pulll nvidia-h200", "Did you mean pull"),
        ("frobnicate", "no command named"),
        ("--frobnicate", "--frobnicate"),
        ("help tunne", "Did you mean tune"),
    ),
    *_of(
        "tune",
        ("tune", "what to tune"),
        ("tune resnet18.c7", "--out"),
        ("tune --out t", "what to tune"),
        ("tune resnet18.c77 --out t", "resnet18.c7"),
        ("tune resnet81 --out t", "resnet18"),
        ("tune --network resnet19 --out t", "resnet18"),
        ("tune nofile.pt2 --out t", "nofile.pt2"),
        ("tune nofile.json --out t", "nofile.json"),
        ("tune broken.json --out t", "broken.json"),
        ("tune list.json --out t", "list.json"),
        ("tune text.pt2 --out t", "text.pt2"),
        ("tune text --out t", "text.pt2"),
        ("tune resnet18.c7 --out t --model nvidia-h200", "cuda"),
        ("tune resnet18.c7 --out t --device cuda --model amd-epyc-zen5-2c", "cuda"),
        ("tune resnet18.c7 --out t --model nvidia-h20", "nvidia-h200"),
        ("tune resnet18.c7 --out t --model nvidia-h200 --arch mlpp", "mlp"),
        ("tune resnet18.c7 --out t --draft nope", "nope"),
        ("tune resnet18.c7 --out t --method foo", "fine-tune"),
        ("tune resnet18.c7 --out t --method fine-tun", "fine-tune"),
        ("tune resnet18.c7 --out t --strategy anealing", "annealing"),
        ("tune resnet18.c7 --out t --stop gains", "gain"),
        ("tune resnet18 --out t --layout nchw", "blocked"),
        ("tune resnet18 --out t --precision bfloat16", "bf16"),
        ("tune resnet18 --out t --precision bf16 --layout plain", "needs the layout blocked"),
        ("tune resnet18.c7 --out t --select best", "ranked"),
        ("tune resnet18.c7 --out t --trials-per-workload 0", "at least 1"),
        ("tune resnet18.c7 --out t --trials many", "--trials"),
        ("tune resnet18.c7 --out t --device nvidia-h200", "no NVIDIA GPU"),
        ("tune resnet18.c7 --out t --device cuda", "no NVIDIA GPU"),
        ("tune resnet18.c7 --out t --device rocm", "without ROCm"),
        ("tune resnet18.c7 resnet18.c7 --out t", "two are called resnet18.c7"),
        ("tune resnet18.c7 --out t --device amd-epyc-zen5-64c", "amd-epyc-zen5-64c"),
        ("tune resnet18.c7 --out t --tracker 127.0.0.1:9190", "--key"),
        ("tune resnet18.c7 --out t --tracker here --key pi4", "HOST:PORT"),
        ("tune resnet18.c7 --out t --tracker 127.0.0.1:9 --key pi4", "127.0.0.1:9", 1),
        ("tune resnet18.c7 --out t --tracker 127.0.0.1:9190 --key pi4 --device cuda", "--device"),
        ("tune resnet18.c7 --out t --precision bf16", "no network"),
        ("tune resnet18.c7 --out file.txt", "file.txt"),
    ),
    *_of(
        "compile",
        ("compile", "what to compile"),
        ("compile resnet18.c7", "--out"),
        ("compile resnet18.c77 --out c", "resnet18.c7"),
        ("compile resnet81 --out c", "resnet18"),
        ("compile nofile.pt2 --out c", "nofile.pt2"),
        ("compile text.pt2 --out c", "text.pt2"),
        ("compile broken.json --out c", "broken.json"),
        ("compile resnet18.c7 --device amd-epyc-zen9 --out c", "amd-epyc-zen9"),
        ("compile resnet18.c7 --device nvidia-h200 --out c", "nvidia-h200"),
        ("compile resnet18.c7 --device amd-mi50 --out c", "without ROCm"),
        ("compile resnet18.c7 --device {} --out c", "num-cores"),
        ("compile resnet18.c7 --model nvidia-h200 --out c", "cuda"),
        ("compile resnet18.c7 --model nope --out c", "nope"),
        ("compile resnet18.c7 --source guess --out c", "measured"),
        ("compile resnet18.c7 --pool 0 --out c", "--pool"),
        ("compile resnet18.c7 --without resnet18.c77 --out c", "resnet18.c7"),
        ("compile resnet18.c7 --data nope --out c", "nope"),
        ("compile resnet18.c7 --layout nchw --out c", "blocked"),
        ("compile resnet18.c7 --precision bf16 --out c", "no network"),
        ("compile resnet18.c7 --out search", "search"),
    ),
    *_of(
        "estimate",
        ("estimate", "what to estimate"),
        ("estimate resnet18.c77", "resnet18.c7"),
        ("estimate nofile.pt2", "nofile.pt2"),
        ("estimate resnet18.c7 --device amd-epyc-zen9", "amd-epyc-zen9"),
        ("estimate resnet18.c7 --device any-cpu", "costhub probe"),
        ("estimate resnet18.c7 --device nofile.json", "nofile.json"),
        ("estimate resnet18.c7 --device {}", "device_id"),
        ("estimate resnet18.c7 --interval 1.5", "--interval"),
        ("estimate resnet18.c7 --trials-per-workload 0", "--trials-per-workload"),
        ("estimate resnet18.c7 --data nope", "nope"),
        ("estimate resnet18.c7 --fast-math", "no network"),
    ),
    *_of(
        "probe",
        ("probe --isa avx3", "avx2"),
        ("probe --threads 0", "--threads"),
        ("probe --threads 4096", "4096"),
        ("probe --kind gpu", "cuda"),
        ("probe --kind cuda", "no NVIDIA GPU"),
        ("probe --kind cuda --threads 2", "--threads"),
        ("probe --budget 5", "5s"),
        ("probe --out file.txt", "file.txt"),
    ),
    *_of(
        "collect",
        ("collect --out d", "--suite"),
        ("collect --suite resnet81 --out d", "resnet18"),
        ("collect --suite resnet18.c99 --out d", "resnet18.c"),
        ("collect --suite resnet50 --out d", "--network resnet50"),
        ("collect --network resnet19 --out d", "resnet18"),
        ("collect --suite resnet18 --out d --budget 5", "5s"),
        ("collect --suite resnet18 --out d --budget soon", "30m"),
        ("collect --suite resnet18 --out d --shares rndom=1", "random"),
        ("collect --suite resnet18 --out d --shares random=2,model", "model"),
        ("collect --suite resnet18 --out d --shares model=1", "--model"),
        ("collect --suite resnet18 --out d --shares model=1 --model nope", "nope"),
        ("collect --suite resnet18 --out d --shares model=1 --model nvidia-h200", "cuda"),
        ("collect --suite resnet18 --out d --space nope", "nope"),
        ("collect --suite resnet18 --out d --space blokced", "blocked"),
        ("collect --suite resnet18 --out d --stop gains", "gain"),
        ("collect --network resnet18 --out d --precision bf16", "--space blocked"),
        ("collect resnet18.c7 --out d --space blocked --precision bf16", "no network"),
        ("collect --suite resnet18 --out used", "used"),
        ("collect --suite resnet18 --out d --device nope", "nope"),
        ("collect --suite resnet18 --out d --tracker 127.0.0.1:9190", "--key"),
        ("collect --suite resnet18 --out d --model auto", "--shares"),
        ("collect --suite resnet18 --out d --dask here", "HOST:PORT"),
        ("collect --suite resnet18 --out d --dask 127.0.0.1:9 --tracker 127.0.0.1:9190 --key pi4", "--tracker"),
        ("collect --suite resnet18 --out d --dask 127.0.0.1:9", "127.0.0.1:9", 1),
    ),
    *_of(
        "devices, pull, lock",
        ("devices nvidia-h20", "nvidia-h200"),
        ("devices broken.json", "is a file"),
        ("pull", "NAME"),
        ("pull nvidia-h20", "nvidia-h200"),
        ("pull nvidia-h200 --arch mlpp", "mlp"),
        ("pull nvidia-h200@deadbeef", "deadbeef"),
        ("pull nvidia-h200 --out used", "used"),
        ("pull ./nowhere", "nowhere"),
        ("pull data", "data"),
        ("pull hf-hub:nvidia-h200", "ORG/NAME"),
        ("pull nvidia-h200 --locked", "costhub.lock"),
        ("pull nvidia-h200 --lock-file other.lock", "--locked"),
        ("lock", "costhub.lock"),
        ("lock nvidia-h20", "nvidia-h200"),
        ("lock nvidia-h200 --data nvidia-h20", "nvidia-h200"),
        ("lock nvidia-h200 --file broken.json", "broken.json"),
        ("lock nvidia-h200 --file empty", "empty"),
        ("lock --check", "costhub.lock"),
        ("lock --check --file list.json", "list.json"),
    ),
    *_of(
        "check, stats, split, export",
        ("check nope", "nope"),
        ("check data/measurements", "name the whole one, data"),
        ("check empty", "empty"),
        ("check file.txt", "file.txt"),
        ("check broken-model", "config.json"),
        ("check any-cpu", "any-cpu"),
        ("stats nvidia-h20", "nvidia-h200"),
        ("stats model", "model"),
        ("split nope", "nope"),
        ("split data --hold-out softmax", "--by"),
        ("split data --by operator --hold-out sofmax", "softmax"),
        ("split data --by workload --count 500", "500"),
        ("split data --by colour", "operator"),
        ("split nvidia-h200 --by operator", "--out"),
        ("export metaschedule nope --out x", "nope"),
        ("export metaschedule data --device nvidia-h20 --out x", "nvidia-h200"),
        ("export metaschedule data --workload nope --out x", "nope"),
        ("export metaschedule data --out used", "used"),
        ("export tenset data --out x", "metaschedule"),
    ),
    *_of(
        "import",
        ("import tenset logs --device nvidia-a100 --out d", "metaschedule"),
        ("import metaschedule nope --device nvidia-a100 --out d", "nope"),
        ("import metaschedule empty --device nvidia-a100 --out d", "empty"),
        ("import metaschedule empty --device nvidia-a100 --out d --names broken.json", "broken.json"),
        ("import ansor nope --device nvidia-a100 --out d", "nope"),
        ("import ansor empty --device nvidia-a100 --out d", "empty"),
        ("import ansor file.txt --device my-gpu --out d", "--target"),
        ("import ansor file.txt --device nvidia-a100 --out d", "name that costhub knows"),
    ),
    *_of(
        "doctor, merge",
        ("doctor", "FOLDER"),
        ("doctor nope", "nope"),
        ("doctor empty", "empty"),
        ("doctor file.txt", "file.txt"),
        ("doctor data", "data"),
        ("doctor empty --best 2", "--run"),
        ("doctor empty --best 0 --run", "--best"),
        ("doctor empty --no-failures", "--fix"),
        ("doctor empty --fast-math", "--network"),
        ("doctor search --network resnet81", "resnet18"),
        ("doctor search --network nofile.pt2", "nofile.pt2"),
        ("doctor search --fix used", "used"),
        ("doctor search --fix search", "search"),
        ("doctor search --workers 0", "--workers"),
        ("merge", "FOLDER"),
        ("merge search", "--out"),
        ("merge nope --out m", "nope"),
        ("merge empty --out m", "empty"),
        ("merge search --out used", "used"),
    ),
    *_of(
        "train",
        ("train --out m", "--data"),
        ("train --data nope --out m", "nope"),
        ("train --data amd-epyc-zen5-3c --out m", "amd-epyc-zen5-2c"),
        ("train --data amd-epyc-zen5 --out m", "--device"),
        ("train --data model --out m", "model"),
        ("train --data data --out m --arch mlpp", "mlp"),
        ("train --data data --out m --option foo=1", "--list-options mlp"),
        ("train --data data --out m --option hiden=64", "hidden"),
        ("train --data data --out m --option hidden=wide", "hidden"),
        ("train --data data --out m --option hidden", "NAME=VALUE"),
        ("train --data data --out m --arch gbt --objective gap", "objective"),
        ("train --data data --out m --objective best", "lambdarank"),
        ("train --data data --out m --features tile@1", "tiles@1"),
        ("train --data data --out m --split nope", "nope"),
        ("train --data data --out m --device nvidia-h20", "nvidia-h200"),
        ("train --data data --out m --stop-share 0.9", "--stop-share"),
        ("train --data data --out m --for any/cpu", "any/cpu"),
        ("train --data data --out used", "used"),
    ),
    *_of(
        "evaluate, card",
        ("evaluate nope --data data", "nope"),
        ("evaluate nvidia-h200 --data nope", "nope"),
        ("evaluate nvidia-h200 --data data --split nope", "nope"),
        ("evaluate nvidia-h200 --data data --device nvidia-h20", "nvidia-h200"),
        ("evaluate broken-model --data data", "config.json"),
        ("evaluate nofile.py:Model --data data", "nofile.py"),
        ("evaluate own.py:Model --data data", "nothing named Model"),
        ("evaluate own.py --data data", "own.py:NAME"),
        ("evaluate own.py:NUMBER --data data", "predict"),
        ("evaluate nvidia-h200 --data data --noise-floor 2", "--noise-floor"),
        ("card nope", "nope"),
        ("card nvidia-h200", "--out"),
        ("card model --split x", "--data"),
        ("card broken-model", "config.json"),
    ),
    *_of(
        "bench",
        ("bench hide nope --out t --latencies l.csv --name x", "nope"),
        ("bench hide data --out used --latencies l.csv --name x", "used"),
        ("bench hide data --out t --latencies t/l.csv --name x", "elsewhere"),
        ("bench hide data --out t --latencies l.csv --name x --device nvidia-h20", "nvidia-h200"),
        ("bench submit used --model nvidia-h200 --out s", "task.json"),
        ("bench score used --latencies nofile.csv", "nofile.csv"),
        ("bench score used --latencies file.txt", "latency_s"),
        ("bench search --strategy genetics", "genetic"),
        ("bench search --strategy genetic --device nvidia-h20", "nvidia-v100"),
        ("bench search --strategy model --model nope", "nope"),
        ("bench search --strategy genetic --model nvidia-h200", "no effect"),
        ("bench search --strategy own.py --model none", "own.py:NAME"),
        ("bench search --trials-per-workload 0", "at least 1"),
    ),
    *_of(
        "adapt",
        ("adapt nope --out m", "nope"),
        ("adapt auto --data nope --out m", "nope"),
        ("adapt auto --data data --device nvidia-h20 --out m", "nvidia-h20"),
        ("adapt auto --data data --method foo --out m", "fine-tune"),
        ("adapt auto --data data --split nope --out m", "nope"),
        ("adapt auto --split x --out m", "--split"),
        ("adapt auto --suite resnet81 --out m", "resnet18"),
        ("adapt amd-epyc-zen5-2c --data data --out m", "cuda"),
        ("adapt nvidia-h200 --out m", "cuda"),
        ("adapt auto --data data --trials 1 --out m", "--trials"),
        ("adapt auto --data data --out used", "used"),
    ),
    *_of(
        "share",
        ("contribute nope --to hf-hub:a/b", "nope"),
        ("contribute data", "--to"),
        ("contribute data --to a/b --dry-run", "a/b"),
        ("publish nope --to hf-hub:a/b", "nope"),
        ("publish model", "--to"),
        ("review nope", "nope"),
        ("review --merge", "name it"),
        ("review data --against nvidia-h20", "nvidia-h200"),
        ("review --list nope", "nope"),
        ("site --out s --hub nope", "nope"),
        ("site --out used", "used"),
        ("board list --tracker here", "HOST:PORT"),
        ("board list --tracker 127.0.0.1:9", "127.0.0.1:9", 1),
        ("board serve --tracker 127.0.0.1:9 --key k --host 0.0.0.0", "--i-trust-this-network"),
        ("board tracker --port 99999999", "--port"),
        ("board tunnel", "tracker"),
    ),
)
"""Every mistake, by what it is about."""
