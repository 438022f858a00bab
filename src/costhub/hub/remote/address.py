"""Provides Address: the location of a model or dataset, as a person writes it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from costhub.errors import CosthubError
from costhub.names import is_plain_name
from costhub.terminal_text import clean

HF_PREFIX = "hf-hub:"
LOCAL_PREFIX = "local-dir:"

REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
# A revision of the Hugging Face hub may be a branch such as refs/pr/1, hence the slashes.
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]*")
_HOSTS = ("huggingface.co", "hf.co")
_FORMS = "nvidia-h200, nvidia-h200@REVISION, hf-hub:ORG/NAME, hf-hub:ORG/NAME@REVISION or local-dir:/PATH"


class AddressError(CosthubError):
    """An address does not have a form that costhub understands."""

    exit_code = 2


@dataclass(frozen=True)
class Address:
    """The location of a model.

    Example:
        >>> parse_address("hf-hub:costhub/nvidia-h200-mlp@v1")
        Address(source='hf-hub', name='costhub/nvidia-h200-mlp', revision='v1')
        >>> str(parse_address("hf-hub:costhub/nvidia-h200-mlp@v1"))
        'hf-hub:costhub/nvidia-h200-mlp@v1'
    """

    source: Literal["index", "hf-hub", "local-dir"]
    """Where to look: the device index, the Hugging Face hub or a folder."""
    name: str
    """A device or model name, an ORG/NAME, or a path."""
    revision: str | None = None
    """The revision to pin; None for the newest."""

    def __str__(self) -> str:
        prefix = {"index": "", "hf-hub": HF_PREFIX, "local-dir": LOCAL_PREFIX}[self.source]
        return f"{prefix}{self.name}" + (f"@{self.revision}" if self.revision else "")


def parse_address(text: str) -> Address:
    """Parses an address.

    A text without a prefix that starts with `/`, `./`, `../` or `~/`, or ends with `/`, is a folder;
    any other one is a name.

    Raises:
        AddressError: The text does not have a known form, or $HF_ENDPOINT is not the address of a server.
    """
    if text.startswith(LOCAL_PREFIX):
        return _local(text, text.removeprefix(LOCAL_PREFIX))
    if text.startswith(HF_PREFIX):
        name, revision = _split_revision(text, text.removeprefix(HF_PREFIX))
        if not REPOSITORY.fullmatch(name):
            raise AddressError(
                f"{text!r} is not an address: after {HF_PREFIX} comes ORG/NAME, as in hf-hub:costhub/nvidia-h200-mlp."
            )
        check_endpoint()
        return Address("hf-hub", name, revision)
    if text.startswith(("http://", "https://")):
        raise AddressError(f"{text!r} is the address of a web page. {_repository_of(text)}")
    if text.startswith(("/", "./", "../", "~/")) or text in (".", "..") or text.endswith("/"):
        return _local(text, text)
    name, revision = _split_revision(text, text)
    if not (is_plain_name(name) or REPOSITORY.fullmatch(name)):
        raise AddressError(f"{text!r} is not an address. Write one as {_FORMS}.")
    return Address("index", name, revision)


def _repository_of(url: str) -> str:
    """What to write instead of the address of a page, in a sentence.

    Example:
        >>> _repository_of("https://huggingface.co/datasets/lab/data/tree/main")
        'Write hf-hub:lab/data for this repository.'
    """
    host, *parts = [part for part in url.partition("?")[0].split("/")[2:] if part] or [""]
    name = "/".join(parts[1:3] if parts[:1] in (["datasets"], ["models"]) else parts[:2])
    is_known = host in _HOSTS and parts[:1] != ["spaces"] and REPOSITORY.fullmatch(name)
    written = f"hf-hub:{name} for this repository" if is_known else "a repository as hf-hub:ORG/NAME"
    return f"Write {written}."


def check_endpoint() -> None:
    """Rejects an $HF_ENDPOINT that the Hugging Face client cannot parse; importing the client would raise.

    Raises:
        AddressError: It is set to something that is not the address of a server.
    """
    endpoint = os.environ.get("HF_ENDPOINT")
    if not endpoint:
        return
    try:
        parts = urlsplit(endpoint)
        is_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_server = False
    if not is_server or not endpoint.isprintable():
        raise AddressError(
            f"HF_ENDPOINT is {clean(endpoint, 80)!r}, which is not the address of a server. Set it to one, such as "
            "https://huggingface.co, or unset it."
        )


def expanded(path: str) -> Path:
    """A path, with ``~`` replaced by the home folder it stands for.

    Raises:
        AddressError: The home folder is not known.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise AddressError(
            f"The ~ in {clean(path, 100)} stands for a home folder that is not known here: write the whole path."
        ) from error


def _local(text: str, path: str) -> Address:
    if not path or "\0" in path:
        raise AddressError(f"{text!r} is not an address: after {LOCAL_PREFIX} comes the path of a folder.")
    # No revision here: a path may contain an @, and a folder has no history.
    return Address("local-dir", str(expanded(path)))


def _split_revision(text: str, rest: str) -> tuple[str, str | None]:
    name, at, revision = rest.partition("@")
    if at and not _REVISION.fullmatch(revision):
        raise AddressError(f"{text!r} is not an address: after @ comes a revision, as in nvidia-h200@3f2a91c.")
    return name, revision or None
