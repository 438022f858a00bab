"""The table of a compilation says of each kernel where its schedule comes from and what is expected of it."""

from __future__ import annotations

from typing import Any

from costhub.cards.reports.compile_summary import compile_text


def row(name: str, **facts: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(
        ("source", "known_workload", "known_device", "known_us", "rank", "check", "error", "library")
    )
    return {**nothing, "workload": name, "counts": {"measured": 2, "carried over": 3}, "failed": [], **facts}


def text(*rows: dict[str, Any], networks: tuple[dict[str, Any], ...] = (), runs_here: bool = True) -> str:
    summary = {"device": "cpu-2c", "model": "some-model", "runs_here": runs_here, "database": "out"}
    return compile_text({**summary, "workloads": rows, "networks": networks})


def test_each_source_is_told_apart() -> None:
    known = {"known_device": "cpu-1c", "known_us": 12.34}
    shown = text(
        row("a", source="measured", known_workload="a", rank=4, check="compared", **known),
        row("b", source="carried over", known_workload="a", rank=1, check="built", **known),
        row("c", source="model's choice", rank=1, check="compared"),
    )

    lines = [line.split("  ") for line in shown.splitlines()[1:4]]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert cells == [
        ["a", "measured", "cpu-1c", "12.3", "4 of 5", "compared"],
        ["b", "carried over", "a on cpu-1c", "12.3", "1 of 5", "built"],
        ["c", "model's choice", "-", "-", "1 of 5", "compared"],
    ]
    assert "Of 3 schedules for cpu-2c: 1 measured, 1 carried over, 1 model's choice." in " ".join(shown.split())
    assert "another machine" not in shown


def test_failures_and_other_machines_are_said() -> None:
    shown = text(
        row("a", error="No source has one.", failed=("It cannot be built.",)),
        row("b", source="measured", known_workload="b", rank=2, check="built", failed=("It crashed.",)),
        runs_here=False,
    )

    assert "a: No source has one." in shown
    assert "cannot be built" not in shown, "the error says enough"
    assert "b: It crashed." in shown
    assert "The target is another machine" in shown


def test_networks_and_files_are_listed() -> None:
    whole = {"network": "net", "threads": 2, "kernels": 5, "kernels_tuned": 4, "error": None, "library": "out/net.so"}
    whole |= {"reference": "torch", "tolerance": 0.0002, "error_size": 1e-6}
    shown = text(
        row("a", source="model's choice", rank=1, check="compared"),
        networks=({**whole, "notes": ("It was not run.",)}, {**whole, "error": "bad", "library": None, "notes": ()}),
    )

    assert "net, 2 threads: 4 of 5 kernels have a schedule of the table." in shown
    assert "It was not run." in shown
    told = "Outputs equal PyTorch's (tolerance 0.0002 of their size); the root mean square of the differences is "
    assert f"{told}1e-06 of it." in " ".join(shown.split())
    assert "\nbad\n" in shown
    assert shown.splitlines()[-3:] == ["library   out/net.so", "database  out", "report    out/report.json"]


def test_outputs_that_were_not_compared_are_not_called_equal() -> None:
    whole = {"network": "net", "threads": 2, "kernels": 5, "kernels_tuned": 4, "error": None, "library": "out/net.so"}
    whole |= {"reference": "torch", "tolerance": 0.0002, "error_size": None, "notes": ()}

    assert "Outputs equal" not in text(networks=(whole,), runs_here=False)
    assert "Outputs equal" not in text(networks=({**whole, "error": "It differs.", "library": None},))


def test_names_that_a_terminal_obeys_are_shown_without_their_escapes() -> None:
    escape = "\x1b]0;owned\x07"
    whole = {
        "network": "net",
        "threads": 2,
        "kernels": 1,
        "kernels_tuned": 1,
        "error": f"bad {escape}",
        "library": None,
    }
    shown = compile_text(
        {
            **{"device": "cpu-2c", "model": f"x/{escape}", "runs_here": True, "database": f"out{escape}"},
            "workloads": [row("a", error=f"It is {escape}.")],
            "networks": [{**whole, "notes": ()}],
        }
    )

    assert "owned" in shown
    assert "\x1b" not in shown
