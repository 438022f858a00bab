"""Runs the notebook of examples/ in a kernel of this environment, and keeps its outputs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click
import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples/quickstart.ipynb"
TIMEOUT_S = 600
"""Of a cell."""


def run(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """A copy of a notebook with the outputs of its cells, run from top to bottom; `folder` is empty.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell fails.
    """
    fresh: nbformat.NotebookNode = nbformat.from_dict(notebook)
    # Sockets of the file system: nobody else on this machine can reach the kernel.
    manager = KernelManager(kernel_name="python3", transport="ipc", ip=os.fspath(folder / "kernel"))
    (folder / "here").mkdir()
    where = {"metadata": {"path": os.fspath(folder / "here")}}
    try:
        NotebookClient(fresh, km=manager, timeout=TIMEOUT_S, resources=where).execute()
    finally:
        if manager.has_kernel:
            manager.shutdown_kernel(now=True)  # a client leaves a kernel running that it was given
    for cell in fresh.cells:
        cell.metadata.pop("execution", None)  # times of day
        if cell.cell_type == "code":
            # Warnings are about this machine at this moment, and no part of the example.
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
    return fresh


@click.command()
@click.option("--keep/--no-keep", default=True, show_default=True, help="Write the outputs into the notebook.")
def main(keep: bool) -> None:
    """Run examples/quickstart.ipynb from top to bottom; fails where a cell fails."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        done = run(notebook, Path(folder))
    if keep:
        nbformat.write(done, NOTEBOOK)
    click.echo(f"{NOTEBOOK.name}: {sum(cell.cell_type == 'code' for cell in done.cells)} cells ran.")
