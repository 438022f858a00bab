"""Trains the models of the embedded hub and puts them there; what each is made of is written here."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import click
from embedded import copy_dataset

from costhub.cli.main import run
from costhub.hub.install import install_model


@dataclass(frozen=True)
class Release:
    """One model."""

    device: str
    arch: str
    split: str
    """Of its dataset; what it holds out, the figures of the card are of."""
    options: tuple[str, ...] = ()
    dataset: str = "amd-epyc-zen5"
    """In the embedded hub; the A100's is not there, see docs/import.md."""


BLEND = ("members=gbt(objective=log) mlp",)
SMALL = ("members=gbt(objective=log,rounds=200,learning_rate=0.1) mlp",)
"""Half the size: .753 / .949 / .819 on amd-epyc-zen5-2c, where `BLEND` has .778 / .954 / .816."""
FEW, MANY = "held-out-14", "workload-40-seed0"
RELEASES = (
    *(Release(f"amd-epyc-zen5-{cores}", arch, FEW) for cores in ("1c", "2c") for arch in ("gbt", "mlp")),
    *(
        Release(f"amd-epyc-zen5-{cores}-{isa}", "blend", MANY, SMALL)
        for cores in ("1c", "2c")
        for isa in ("avx2", "sse4.2")
    ),
    Release("nvidia-h200", "blend", "workload-12-seed0", BLEND, "nvidia-h200"),
    Release("nvidia-a100", "blend", "workload-5-seed0", BLEND, "nvidia-a100"),
)


@click.command()
@click.option("--device", "devices", multiple=True, help="Of these only.")
@click.option(
    "--a100",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The data folder of nvidia-a100, imported from its public home; without it, that model stays.",
)
@click.option("--seed", default=0, show_default=True)
def main(devices: tuple[str, ...], a100: Path | None, seed: int) -> None:
    """Equal data and seed give equal models on one machine; each config.json records both."""
    wanted = [each for each in RELEASES if not devices or each.device in devices]
    with tempfile.TemporaryDirectory() as folder:
        data = {
            name: copy_dataset(folder, name) for name in {each.dataset for each in wanted} - {"nvidia-a100"}
        }
        if a100:
            run(["split", str(a100), "--by", "workload", "--count", "5", "--seed", "0"])
            data["nvidia-a100"] = a100
        for each in wanted:
            if each.dataset in data:
                click.echo(
                    f"Installed {install_model(trained(each, data[each.dataset], Path(folder), seed))}.\n"
                )


def trained(release: Release, data: Path, folder: Path, seed: int) -> Path:
    """The folder of the trained model."""
    out = folder / f"{release.device}-{release.arch}"
    options = [word for option in release.options for word in ("--option", option)]
    arguments = [
        "--data",
        str(data),
        "--device",
        release.device,
        "--split",
        release.split,
        "--arch",
        release.arch,
    ]
    if code := run(["train", *arguments, *options, "--seed", str(seed), "--out", str(out)]):
        raise SystemExit(code)
    return out


if __name__ == "__main__":
    main()
