"""Trains the models of one device on the embedded dataset, and puts them into the embedded hub."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
from embedded import DEVICE, SPLIT, copy_dataset

from costhub.cli.main import run
from costhub.hub.install import install_model

ARCHITECTURES = ("gbt", "mlp")
"""What every device has; the others are made with --arch."""


@click.command()
@click.option("--device", default=DEVICE, show_default=True)
@click.option("--arch", "architectures", multiple=True, default=ARCHITECTURES, show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(device: str, architectures: tuple[str, ...], seed: int) -> None:
    """Equal data and seed give equal models on one machine; each config.json records both."""
    with tempfile.TemporaryDirectory() as folder:
        data = copy_dataset(folder)
        for arch in architectures:
            out = Path(folder, f"{device}-{arch}")
            options = [
                "--data",
                str(data),
                "--device",
                device,
                "--split",
                str(data / SPLIT),
                "--arch",
                arch,
                "--seed",
                str(seed),
            ]
            if code := run(["train", *options, "--out", str(out)]):
                raise SystemExit(code)
            click.echo(f"Installed {install_model(out)}.\n")


if __name__ == "__main__":
    main()
