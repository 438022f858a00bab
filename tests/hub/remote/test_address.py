from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.hub.remote.address import Address, AddressError, parse_address
from costhub.hub.review.fetch import find_pull_request

WORD = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,12}", fullmatch=True)
REVISION = st.none() | st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,20}", fullmatch=True)
ADDRESSES = st.one_of(
    st.builds(Address, st.just("index"), WORD, REVISION),
    st.builds(Address, st.just("hf-hub"), st.builds("{}/{}".format, WORD, WORD), REVISION),
    st.builds(Address, st.just("local-dir"), st.builds("/{}".format, WORD)),
)


@given(ADDRESSES)
def test_an_address_is_read_back_as_it_was_written(address: Address) -> None:
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nvidia-h200", Address("index", "nvidia-h200")),
        ("nvidia-h200@3f2a91c", Address("index", "nvidia-h200", "3f2a91c")),
        ("costhub/nvidia-h200-mlp", Address("index", "costhub/nvidia-h200-mlp")),
        ("hf-hub:org/name", Address("hf-hub", "org/name")),
        ("hf-hub:org/name@refs/pr/1", Address("hf-hub", "org/name", "refs/pr/1")),
        ("local-dir:/a/b@c", Address("local-dir", "/a/b@c")),
        ("local-dir:model", Address("local-dir", "model")),
        ("./model", Address("local-dir", "model")),
        ("/tmp/model", Address("local-dir", "/tmp/model")),  # noqa: S108
    ],
)
def test_every_form_is_read(text: str, expected: Address) -> None:
    assert parse_address(text) == expected


def test_a_tilde_is_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert parse_address("~/model") == parse_address("local-dir:~/model")
    for text in ("~no-such-user/model/", "local-dir:~no-such-user/model"):
        with pytest.raises(AddressError, match=r"The ~ in ~no-such-user/model/? stands for a home folder"):
            parse_address(text)
    assert parse_address("~/model").name == str(tmp_path / "model")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("https://huggingface.co/datasets/lab/data/tree/main?x=1", "Write hf-hub:lab/data for this repository."),
        ("https://huggingface.co/lab/model", "Write hf-hub:lab/model for this repository."),
        ("https://example.org", "Write a repository as hf-hub:ORG/NAME."),
        ("https://github.com/lab/data", "Write a repository as hf-hub:ORG/NAME."),
        ("https://huggingface.co/spaces/lab/data", "Write a repository as hf-hub:ORG/NAME."),
    ],
)
def test_the_address_of_a_page_is_answered_with_that_of_its_repository(text: str, sentence: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse_address(text)

    assert str(caught.value) == f"{text!r} is the address of a web page. {sentence}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'' is not an address. Write one as nvidia-h200,"),
        ("nvidia h200", "is not an address. Write one as"),
        ("-rf", "is not an address. Write one as"),
        ("https//huggingface.co/a/b", "is not an address. Write one as"),
        ("a/b/c", "is not an address. Write one as"),
        ("nvidia-h200@", "after @ comes a revision"),
        ("nvidia-h200@a b", "after @ comes a revision"),
        ("nvidia-h200@a@b", "after @ comes a revision"),
        ("hf-hub:name", "after hf-hub: comes ORG/NAME"),
        ("hf-hub:", "after hf-hub: comes ORG/NAME"),
        ("hf-hub:../../etc/passwd", "after hf-hub: comes ORG/NAME"),
        ("hf-hub:org/name@", "after @ comes a revision"),
        ("local-dir:", "after local-dir: comes the path of a folder"),
    ],
)
def test_a_malformed_address_is_refused_with_the_form_expected(text: str, sentence: str) -> None:
    with pytest.raises(AddressError, match="is not an address") as caught:
        parse_address(text)

    assert sentence in str(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        address = parse_address(text)
    except AddressError:
        return
    assert address.name


@pytest.mark.parametrize(
    "endpoint", ["http://\x1b]0;x\x07", "http://[::1", "huggingface.co", "file:///etc", "http://host:99999"]
)
def test_an_endpoint_that_is_no_server_is_refused_before_the_client_is_imported(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)

    with pytest.raises(AddressError, match="not the address of a server") as caught:
        parse_address("hf-hub:costhub/nvidia-h200-mlp")

    assert str(caught.value).isprintable()
    with pytest.raises(AddressError, match="not the address of a server"):
        find_pull_request("hf-hub:costhub/data@refs/pr/3")
    assert parse_address("nvidia-h200").source == "index"
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:8000/mirror")
    assert parse_address("hf-hub:costhub/nvidia-h200-mlp").source == "hf-hub"
