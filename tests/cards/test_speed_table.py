from __future__ import annotations

from costhub.cards.speed_table import speed_table

RESULT = {
    "speed": [
        {"workload": "w", "model": "tvm-xgb", "features_s": 2.0, "prediction_s": 0.05, "of_tvm_xgb": 1.0},
        {"workload": "w", "model": "gbt behind a draft", "features_s": 0.3, "prediction_s": 0.04, 
         "of_tvm_xgb": 6.0, "kept_best_16": 0.875},
    ],
    "searches": [
        {"workload": "w", "model": "mlp", "population": 256, "seconds": 20.0,
         "stages": {"evolution": 8.0, "features": 1.5, "prediction": 0.5, "building": 4.0, "running": 6.0}},
    ],
}  # fmt: skip


def test_a_line_tells_parts_ratio_and_what_a_draft_kept() -> None:
    text = speed_table(RESULT)

    assert "| w | tvm-xgb | 2.000 | 0.050 | - | 1.00 | - |" in text
    assert "| w | gbt behind a draft | 0.300 | 0.040 | - | 6.00 | 88% |" in text


def test_stages_are_shares_of_the_search() -> None:
    text = speed_table(RESULT)

    assert "| w | mlp | 256 | 20.0 | 40.0% | 7.5% | 2.5% | - | 20.0% | 30.0% | - |" in text
