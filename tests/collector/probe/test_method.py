from __future__ import annotations

from costhub.collector.probe.method import method
from costhub.collector.probe.service import Answer, Setting, Step


def test_instructions_the_clock_and_what_is_missing_are_named() -> None:
    text = method(
        Setting("{}", "cpu", 2, 1 << 20),
        {
            Step("peak", dtype="float32"): Answer(100.0, "vfmadd231ps zmm"),
            Step("peak", dtype="float16"): Answer(None, "the target has none"),
            Step("clock"): Answer(4.256),
            Step("overhead"): Answer(None, "killed"),
            Step("bandwidth", bytes=8192): Answer(50.0, bytes=8192),
        },
    )

    assert "Threads: 2." in text
    assert "4.26 GHz" in text
    assert "float32: vfmadd231ps zmm." in text
    assert "float16: the target has none." in text
    assert "Not measured: overhead (killed)." in text
    assert "8 KiB" not in text
