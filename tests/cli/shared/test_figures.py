"""The figures of a model as text; tests/cli/test_evaluate.py has their values."""

from __future__ import annotations

from typing import Any

from costhub.cli.shared.figures import figures_table, figures_text


def test_text_for_a_terminal_names_devices_only_where_there_are_several() -> None:
    def line(device: str) -> dict[str, Any]:
        return {"workload": "w", "operator": "conv", "programs": 3, "device_id": device, **figures}

    figures = {"top_1": 0.5, "top_5": 1.0, "pairwise": 0.75, "spearman": 0.25}
    errors = {**figures, "top_1": None}
    found = {"workloads": [line("a"), line("a")], "totals": figures, "standard_errors": errors}
    network = {"network": "resnet-18", "workloads": 1, "programs": 3, **figures, "top_1_weighted": 0.4}

    one = figures_text(found).splitlines()
    several = figures_text(
        {**found, "workloads": [line("a"), line("b")], "networks": [network], "variants": {"top_1_tlp": 0.4}}
    )

    assert one[0].split() == ["workload", "operator", "programs", "top_1", "top_5", "pairwise", "spearman"]
    assert one[-1].split() == ["standard", "error", "-", "-", "1.000", "0.750", "0.250"]
    assert "device" in several.splitlines()[0]
    assert "resnet-18" in several
    assert several.endswith("top_1_tlp 0.400")


def test_workloads_without_a_pair_to_rank_are_counted() -> None:
    figures = {"workloads": [], "totals": {}, "skipped": ["a", "b"], "noise_floor": 0.05}

    assert figures_table(figures).endswith("2 workloads left out: no two of their programs differ by more than 5%.")
