"""The seal: any changed byte breaks it, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costhub.dataset.schema import table_from_rows
from costhub.dataset.shards.shard import SEAL_KEY, seal_state, write_seal, write_shard


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("seal") / "train-00000-of-00001.parquet"
    rows = [{"device_id": f"cpu{i}", "kind": "cpu", "driver": "costhub.seal"} for i in range(50)]
    write_shard(table_from_rows("devices", rows), path)
    return path


def test_a_shard_is_written_sealed(shard: Path) -> None:
    assert seal_state(shard) == "sealed"
    assert len(pq.read_metadata(shard).metadata[SEAL_KEY.encode()]) == 64


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_flipped_bit_is_seen(shard: Path, tmp_path: Path, data: Any) -> None:
    content = bytearray(shard.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    copy = tmp_path / "flipped.parquet"
    copy.write_bytes(content)

    assert seal_state(copy) != "sealed"


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_that_is_cut_or_longer_is_seen(shard: Path, tmp_path: Path, data: Any) -> None:
    content = shard.read_bytes()
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    extra = data.draw(st.binary(min_size=1, max_size=20))
    copy = tmp_path / "cut.parquet"
    for changed in (cut, content + extra, extra + content):
        copy.write_bytes(changed)
        assert seal_state(copy) != "sealed"


def test_a_file_that_another_tool_wrote_again_is_seen(shard: Path, tmp_path: Path) -> None:
    table = pq.read_table(shard)
    swapped = table.set_column(1, "kind", table["device_id"])
    stale = {SEAL_KEY: pq.read_metadata(shard).metadata[SEAL_KEY.encode()]}
    for name, seal in (("kept", stale), ("dropped", {})):
        with pq.ParquetWriter(tmp_path / name, swapped.schema) as writer:
            writer.write_table(swapped)
            writer.add_key_value_metadata(seal)

    assert seal_state(tmp_path / "kept") == "broken"
    assert seal_state(tmp_path / "dropped") == "missing"


def test_a_file_without_a_place_for_it_cannot_be_sealed(tmp_path: Path) -> None:
    pq.write_table(table_from_rows("devices", []), tmp_path / "plain.parquet")

    with pytest.raises(ValueError, match="no place for a seal"):
        write_seal(tmp_path / "plain.parquet")
