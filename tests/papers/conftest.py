"""The fixtures of transfer and search, to which the papers add methods."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def fixtures_of(stage: str) -> ModuleType:
    """Loads the conftest of a stage; folders of tests are not packages."""
    spec = spec_from_file_location(f"{stage}_fixtures", Path(__file__).parents[1] / stage / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_search, _transfer = fixtures_of("search"), fixtures_of("transfer")
likes, linear, target = _search.likes, _search.linear, _search.target
new_context, new_space, space = _search.new_context, _search.new_space, _search.space
source_programs, sources, measured_here = _transfer.source_programs, _transfer.sources, _transfer.measured_here
