"""Provides the types of arguments that several commands share: names, numbers, times and data, without tvm or torch."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from costhub.collector.workloads.network_source import LAYOUTS, PRECISIONS
from costhub.models.options import NETWORK_OBJECTIVES, TREE_OBJECTIVES
from costhub.search.whole_network.engines import ENGINES

if TYPE_CHECKING:
    from costhub.collector.propose.sampler import Shares
    from costhub.hub.data import DataAddress
    from costhub.registry import Registry


class Duration(click.ParamType[float]):
    """A time with its unit, such as ``90s``, ``30m`` or ``2h``, in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds in `value`."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", str(value))
        if not match:
            self.fail(f"{value!r} is not a time; write for example 90s, 30m or 2h.", param, ctx)
        if not match[2]:
            self.fail(f"{value} has no unit; write {value}s, {value}m or {value}h.", param, ctx)
        return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


class WholeNumber(click.IntRange):
    """A whole number in a range, which has an end below."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(_number_sentence(value, int, "whole number", self), param, ctx)


class DecimalNumber(click.FloatRange):
    """A number in a range, which has an end below."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            number = math.nan
        if math.isnan(number):  # no comparison with the ends refuses it
            self.fail(_number_sentence(value, float, "number", self), param, ctx)
        return number


def _number_sentence(
    value: Any, read: Callable[[Any], float], noun: str, wanted: click.IntRange | click.FloatRange
) -> str:
    """What is wrong with a text that should be a number, and what would be right."""
    least, most = wanted.min, wanted.max
    begin = "above" if wanted.min_open else "of at least"
    end = "" if most is None else f" and {'below' if wanted.max_open else 'at most'} {most}"
    try:
        read(value)
    except ValueError:
        return f"{value!r} is not a {noun}; write one {begin} {least}{end}."
    return f"{value} is out of range; write a {noun} {begin} {least}{end}."


class RegisteredChoice(click.Choice[str]):
    """A name in a registry; the help lists all names without importing their modules.

    Args:
        registry: Address of the registry, `module:attribute`.
    """

    def __init__(self, registry: str) -> None:
        # Not the base class's: the names of other packages are looked up when somebody asks for them.
        self._address = registry
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names, costhub's own first."""
        return tuple(self._registry())

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself.

        Raises:
            UnknownNameError: It is not in the registry; the message lists the close ones.
        """
        self._registry().check(str(value))
        return str(value)

    def _registry(self) -> Registry[Any]:
        module, _, attribute = self._address.partition(":")
        registry: Registry[Any] = getattr(import_module(module), attribute)
        return registry


class FeatureNames(click.ParamType[str]):
    """A feature spec, or several joined with ``+``."""

    name = "spec"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself.

        Raises:
            UnknownNameError: A part of it is not a feature spec, or is named twice.
        """
        from costhub.dataset.features.specs import check_spec

        check_spec(str(value))
        return str(value)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """All specs, for the help."""
        return f"[{'|'.join(_specs())}]"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The specs that the last part may become."""
        before, plus, last = incomplete.rpartition("+")
        return [CompletionItem(f"{before}{plus}{name}") for name in _specs() if name.startswith(last)]


class SpaceName(click.ParamType[str]):
    """A design space that comes with costhub, or ``module:function`` of the user's own."""

    name = "space"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself; a module of the user's is imported where it is used.

        Raises:
            UnknownNameError: Nothing has that name.
        """
        from costhub.collector.propose.spaces import check_name

        check_name(str(value))
        return str(value)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """All spaces, for the help."""
        from costhub.collector.propose.spaces import space_names

        return f"[{'|'.join(space_names())}|MODULE:FUNCTION]"


class TrackerText(click.ParamType[str]):
    """The address of a TVM RPC tracker, ``HOST:PORT``."""

    name = "host:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text itself.

        Raises:
            ArgumentError: It is not an address.
        """
        from costhub.collector.boards.tracker import address_of

        address_of(str(value))
        return str(value)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """As in the usage line."""
        return "HOST:PORT"


class PictureFile(click.Path):
    """The file of a picture, PNG or SVG; another one is refused before the work."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        path = Path(str(super().convert(value, param, ctx)))
        if path.suffix not in (".png", ".svg"):
            self.fail(f"{path} is not the name of a picture; it must end in .png or .svg.", param, ctx)
        return path


class SharesText(click.ParamType["Shares"]):
    """What part of the programs comes from each source, as ``random=0.5,mutation=0.3,model=0.2``."""

    name = "shares"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Shares:
        """The shares.

        Raises:
            ArgumentError: It has another form, or the shares do not sum to 1.
        """
        from costhub.collector.propose.sampler import Shares

        return value if isinstance(value, Shares) else Shares.parse(str(value))


class DataName(click.ParamType["DataAddress"]):
    """Data on this machine: a path, or the name of a dataset or device in the hubs here."""

    name = "data"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> DataAddress:
        """The data folder.

        Raises:
            CosthubError: One of its kinds: there is no such folder, dataset or device, or it is elsewhere.
        """
        from costhub.hub.data import DataAddress, find_data

        return value if isinstance(value, DataAddress) else find_data(str(value))

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """As in the usage line."""
        return "DATA"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Folders, and the datasets and devices in the hubs."""
        return [CompletionItem(incomplete, type="dir"), *_starting(_data_names(), incomplete)]


class ModelName(click.ParamType[str]):
    """A model: the name of a device or model, an address or a folder. What takes it finds it."""

    name = "model"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text itself."""
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Folders, and the devices and models in the hubs."""
        return [CompletionItem(incomplete, type="dir"), *_starting(_model_names(), incomplete)]


def _specs() -> Sequence[str]:
    from costhub.dataset.features.specs import spec_names

    return spec_names()


def _data_names() -> list[str]:
    from costhub.hub.catalogue.hubs import dataset_folders

    datasets = dataset_folders()
    devices = {path.name for folder in datasets.values() for path in (folder / "measurements").glob("*")}
    return sorted({*(name.split("/")[1] for name in datasets), *devices})


def _model_names() -> list[str]:
    from costhub.hub.catalogue.hubs import list_models

    entries = list_models()
    return sorted({"auto", *(entry.name for entry in entries), *(name for entry in entries for name in entry.devices)})


def _starting(names: Sequence[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


METHOD = RegisteredChoice("costhub.transfer.methods.by_name:METHODS")
STRATEGY = RegisteredChoice("costhub.search.strategies.by_name:STRATEGIES")
SEARCH_STOP = RegisteredChoice("costhub.search.options:SEARCH_STOPS")
COLLECT_STOP = RegisteredChoice("costhub.api.collect:COLLECT_STOPS")
ADAPT_STOP = RegisteredChoice("costhub.transfer.stopping:ADAPT_STOPS")
LAYOUT = click.Choice(LAYOUTS)
PRECISION = click.Choice(PRECISIONS)
ENGINE = click.Choice(tuple(ENGINES))
SELECTION = RegisteredChoice("costhub.search.options:SELECTIONS")
ARCHITECTURE = RegisteredChoice("costhub.models.architectures:ARCHITECTURES")
FEATURES = FeatureNames()
OBJECTIVE = click.Choice(tuple(dict.fromkeys((*NETWORK_OBJECTIVES, *TREE_OBJECTIVES))))
ISA = click.Choice(("sse4.2", "avx2", "avx512"))
"""Literally, since `ISA_LEVELS` lies where the machine is identified; a test compares the two."""
TRACKER = TrackerText()
PICTURE = PictureFile()
SPACE = SpaceName()
SHARES = SharesText()
DATA = DataName()
MODEL = ModelName()
