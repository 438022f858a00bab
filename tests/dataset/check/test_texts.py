from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub import __version__
from costhub.dataset.check.texts import (
    control_characters,
    control_in_entries,
    control_in_names,
    empty_names,
    missing_licence,
    oversized_entries,
    oversized_texts,
    personal_data,
    personal_entries,
    personal_rows,
    unknown_versions,
)


def rows(breaches: Any) -> list[int]:
    return sorted({int(row) for _, mask in breaches for row in np.flatnonzero(mask)})


def test_texts_far_beyond_what_their_column_is_for(batch: Any) -> None:
    made = batch(
        trace=["x" * 5000, "x" * (2 << 20), "", ""],
        session=["s", "s", "s" * 257, None],
        run_s=[[1.0]] * 3 + [[1.0] * 10_001],
    )

    assert rows(oversized_texts(made)) == [1, 2, 3]


@pytest.mark.parametrize(
    ("error", "found"), [("line\n\tline", []), ("\x1b[31m", [0]), ("a\x00b", [0]), ("naïve", []), (None, [])]
)
def test_characters_that_a_terminal_obeys(batch: Any, error: str | None, found: list[int]) -> None:
    assert rows(control_characters(batch(error=[error]))) == found


@pytest.mark.parametrize(
    "name", ["a\nb", "\x1b]0;title\x07", "a\x00", "\x9b31m", "\u202egnp.exe", "\ufeffa", "a\u2028b"]
)
@pytest.mark.parametrize("column", ["session", "contributor", "driver_version", "proposed_by", "trace"])
def test_a_name_that_a_terminal_obeys(batch: Any, column: str, name: str) -> None:
    assert rows(control_in_names(batch(**{column: ["naïve", name]}))) == [1]
    entry = {"device_id": "a", "aliases": ["b", name], "module_json": "{\n}", "cores": 2}
    assert list(control_in_entries(entry)) == ["aliases holds control characters."]
    assert list(control_in_entries({"networks": [{"name": name, "weight": 1.0}]})) == [
        "networks holds control characters."
    ]


def test_names_in_other_scripts_are_fine(batch: Any) -> None:
    assert rows(control_in_names(batch(contributor=["Łukasz 李 أحمد"]))) == []
    assert list(control_in_entries({"name": "Łukasz 李 أحمد"})) == []


def test_names_without_a_letter(batch: Any) -> None:
    assert rows(empty_names(batch(record_id=["r", ""], proposed_by=["random", "random"]))) == [1]


def test_entries_of_tables_are_bounded_too() -> None:
    row = {
        "name": "n" * 300,
        "shapes": "s" * 300,
        "aliases": ["a", "b" * 300],
        "flop": 1.0,
        "networks": [{"name": "n"}] * 10_001,
    }

    assert list(oversized_entries(row)) == [
        "name is longer than 256 characters.",
        "aliases is longer than 256 characters.",
        "networks has more than 10,000 entries.",
    ]


def test_a_row_without_a_licence_or_with_one_that_hubs_do_not_take(batch: Any) -> None:
    [(_, missing), (_, unknown)] = missing_licence(batch(licence=["MIT", None, " ", "MIT License"]))

    assert missing.tolist() == [False, True, True, False]
    assert unknown.tolist() == [False, False, False, True]


@pytest.mark.parametrize(
    ("version", "is_newer", "is_strange"),
    [
        (__version__, False, False),
        ("0.0.1", False, False),
        ("99.0", True, False),
        ("99.1.2.dev3+g123", True, False),
        ("latest", False, True),
        ("9" * 400 + ".1", False, True),
        (None, False, False),
        ("", False, False),
    ],
)
def test_versions_that_this_costhub_cannot_judge(batch: Any, version: str, is_newer: bool, is_strange: bool) -> None:
    newer, strange = (bool(mask[0]) for _, mask in unknown_versions(batch(costhub_version=[version])))

    assert (newer, strange) == (is_newer, is_strange)


HOME, ACCOUNT, ADDRESS, MACHINE = (
    "a home folder",
    "an e-mail address or account",
    "a network address",
    "the name of a machine",
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("cannot open /home/ada/main.so", HOME),
        ("File '/Users/grace/tvm/build.py'", HOME),
        (r"C:\Users\linus\x.dll", HOME),
        ("Ada <ada@example.org>", ACCOUNT),
        ("root@gpu-box: refused", ACCOUNT),
        ("ada.l+tvm@cs.example.edu", ACCOUNT),
        ("tracker at 192.168.1.17:9190", ADDRESS),
        ("from 8.8.8.8.", ADDRESS),
        ("bind fe80::1ff:fe23:4567:890a", ADDRESS),
        ("bind 2001:db8:85a3:0:0:8a2e:370:7334", ADDRESS),
        ("eth0 3c:22:fb:10:9a:01", ADDRESS),
        ("tracker.lab.internal does not answer", MACHINE),
        ("adas-macbook.local", MACHINE),
        ("job ran on gpu03.cs.example.edu", MACHINE),
        ("hostname=node17", MACHINE),
    ],
)
def test_personal_data_is_seen(text: str, kind: str) -> None:
    assert personal_data(text) == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "tvm.error.InternalError: Check failed: (eval_vec_) is false",
        "std::__cxx11::basic_string<char> at tvm::runtime::Object",
        "a::b::c dead::beef::cafe",
        "12:34:56 killed after 20 s of building",
        "2026-11-20T07:15:53.859931+00:00",
        "undefined reference to memcpy@GLIBC_2.14, puts@plt",
        "declare void @llvm.x86.avx512",
        "see https://discuss.tvm.apache.org/t/123 and http://10.0.0.1/x",
        "0.27.0.post1 llvm 22 Linux 6.18.44-fc-v657",
        "/workspace/src/tir/transform/lower.cc:123",
        "/home/conda/feedstock/work/tvm.py",
        "bound to 127.0.0.1:9190 and ::1",
        "libtvm_runtime.so.0, ir2vec.com3pile",
        "conv2d_1x56x56x64.main_kernel0",
        "costhub",
        "CC-BY-4.0",
        "Ada Lovelace",
        '{"kind":"llvm","mtriple":"x86_64-conda-linux-gnu","num-cores":2}',
    ],
)
def test_what_errors_and_versions_look_like_is_not_personal(text: str) -> None:
    assert personal_data(text) == []


def test_four_numbers_are_a_version_in_a_column_of_versions(batch: Any) -> None:
    assert personal_data("31.0.101.2111", is_version=True) == []
    found = personal_rows(batch(driver_version=["27.20.100.9664", "31.0.101.21"]))
    assert [message for message, mask in found if mask.any()] == []


def test_rows_are_found_by_column_and_kind(batch: Any) -> None:
    rows = batch(error=["at /home/ada/x", None, "at /home/ada/x by ada@x.org"], contributor=["ada@x.org", "Ada", None])

    assert [(message, mask.tolist()) for message, mask in personal_rows(rows)] == [
        ("error holds a home folder.", [True, False, True]),
        ("error holds an e-mail address or account.", [False, False, True]),
        ("contributor holds an e-mail address or account.", [True, False, False]),
    ]


def test_devices_and_workloads_are_searched_too() -> None:
    row = {
        "driver": "6.1 node-1.lan",
        "aliases": ["a", "b@c.org"],
        "networks": [{"name": "/home/ada/net", "weight": 1.0}],
    }

    assert list(personal_entries(row | {"cores": 2, "module_json": "/home/ada", "probed_at": None})) == [
        "driver holds the name of a machine.",
        "aliases holds an e-mail address or account.",
        "networks holds a home folder.",
    ]


@pytest.mark.parametrize("piece", ["a1", "a-", "a.", "1:", "1.", "a1.", "a@", "a+", "/home/", "https://"])
def test_long_texts_take_no_longer_than_they_are_long(piece: str) -> None:
    # With unbounded lengths some of these would take minutes each.
    personal_data(piece * 50_000)
