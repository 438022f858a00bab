"""Provides MemberSpec, a part of a compound model written as one word, and the subfolders of the members."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from costhub.dataset.programs import Programs
from costhub.errors import ModelError, UnknownNameError
from costhub.models.architectures import ARCHITECTURES, new_model
from costhub.models.protocol import CostModel

COMPOUND = ("ensemble", "blend", "conditioned")
"""Architectures whose members may be of several kinds; they cannot be members themselves."""

_WORD = re.compile(
    r"(?P<arch>[a-z][a-z0-9_]*)(\((?P<options>[a-z0-9_]+=[\w.+-]+(,[a-z0-9_]+=[\w.+-]+)*)\))?"
    r"(:(?P<spec>[a-z0-9_]+@\d+(\+[a-z0-9_]+@\d+)*))?",
    re.ASCII,
)


@dataclass(frozen=True)
class MemberSpec:
    """A model inside a model: `gbt`, `gbt(rounds=100,depth=4)`, `mlp:per_store@1`."""

    arch: str
    """A key of `ARCHITECTURES`, but not one of `COMPOUND`."""
    options: tuple[tuple[str, str], ...] = ()
    """Name and value of each option that differs from the default."""
    feature_spec: str = ""
    """The feature spec it reads; empty if it reads that of the whole model."""

    @classmethod
    def parse(cls, word: str) -> MemberSpec:
        """Reads a member from `ARCH[(NAME=VALUE,...)][:SPEC]`.

        Raises:
            ValueError: It has another form, or names an architecture that cannot be a member.

        Example:
            >>> MemberSpec.parse("gbt(rounds=100):per_store@1+relation@1")
            MemberSpec(arch='gbt', options=(('rounds', '100'),), feature_spec='per_store@1+relation@1')
        """
        parsed = _WORD.fullmatch(word)
        if parsed is None:
            raise ValueError(
                f"a member must be ARCH, ARCH(NAME=VALUE,...) or either with :SPEC after it, got {word!r}."
            )
        arch, options, spec = parsed["arch"], parsed["options"] or "", parsed["spec"] or ""
        allowed = [name for name in ARCHITECTURES if name not in COMPOUND]
        if arch not in allowed:
            raise ValueError(f"a member must be one of {', '.join(allowed)}, got {arch!r}.")
        pairs = tuple((name, value) for name, _, value in (pair.partition("=") for pair in options.split(",") if pair))
        if len(dict(pairs)) < len(pairs):
            raise ValueError(f"the member {word!r} gives an option twice.")
        return cls(arch, pairs, spec)

    @classmethod
    def of(cls, model: CostModel, *, whole: str) -> MemberSpec:
        """The member that describes a model.

        Args:
            model: Fitted or not.
            whole: The feature spec of the compound model.

        Example:
            >>> model = new_model("gbt", feature_spec="demo@1", options={"rounds": 20})
            >>> str(MemberSpec.of(model, whole="demo@1")), str(MemberSpec.of(model, whole="demo@1+relation@1"))
            ('gbt(rounds=20)', 'gbt(rounds=20):demo@1')
        """
        own: Any = model
        defaults = asdict(type(own.options)())
        changed = [(name, str(value)) for name, value in asdict(own.options).items() if value != defaults[name]]
        return cls(model.arch, tuple(changed), "" if model.feature_spec == whole else model.feature_spec)

    def __str__(self) -> str:
        """The word that `parse` reads."""
        options = ",".join(f"{name}={value}" for name, value in self.options)
        spec = f":{self.feature_spec}" if self.feature_spec else ""
        return f"{self.arch}({options}){spec}" if options else f"{self.arch}{spec}"

    def new(self, *, feature_spec: str) -> CostModel:
        """A model of this kind that is not yet fitted.

        Args:
            feature_spec: What the model reads if the member names nothing else.

        Raises:
            ModelError: There is no such option, or it cannot have that value.
        """
        spec = self.feature_spec or feature_spec
        try:
            return new_model(self.arch, feature_spec=spec, options=dict(self.options))
        except UnknownNameError as error:
            raise ModelError(f"A member of the model cannot be made. {error}") from error


def member_folder(folder: Path, number: int) -> Path:
    """The folder of a member, inside the folder of the compound model."""
    return folder / f"member_{number}"


def save_members(members: Sequence[CostModel], folder: Path) -> None:
    """Writes the weights of each member into `member_0/`, `member_1/` and so on.

    Raises:
        ModelError: A member is not fitted.
    """
    for number, member in enumerate(members):
        own = member_folder(folder, number)
        own.mkdir()
        member.save_weights(own)


def load_members(members: Sequence[CostModel], folder: Path, configs: object, *, columns: Sequence[int]) -> None:
    """Reads what `save_members` wrote into members that are not yet fitted.

    Args:
        members: New models of the right architectures.
        folder: Where the subfolders are.
        configs: The `config()` of each member, as read from an untrusted file.
        columns: Width of the rows that each must read.

    Raises:
        ModelError: A configuration or a file is not what the code expects.
    """
    if not (
        isinstance(configs, list)
        and len(configs) == len(members)
        and all(isinstance(config, Mapping) for config in configs)
    ):
        raise ModelError(
            f"The configuration in {folder} needs fitted, a list with an object for each of the "
            f"{len(members)} members; fetch or train the model again."
        )
    for number, (member, config, width) in enumerate(zip(members, configs, columns, strict=True)):
        member.load_weights(member_folder(folder, number), config)
        if config.get("columns") != width:
            raise ModelError(
                f"Member {number} in {folder} reads rows of {config.get('columns')} columns, "
                f"but config.json describes {width}."
            )


def update_members(model: CostModel, programs: Programs, *, seed: int) -> None:
    """The networks and trees that a compound model is made of learn a little more, each with its own seed."""
    for number, (part, own) in enumerate(model.sub_models(programs)):
        part.update(own, seed=seed + number)
