"""Provides read_booster: trees from a file that a stranger may have made."""

from __future__ import annotations

from pathlib import Path

import xgboost as xgb

from costhub.errors import ModelError, first_line
from costhub.models.weights_file import check_weights_file


def read_booster(path: Path, *, advice: str = "Fetch it again.") -> xgb.Booster:
    """Reads XGBoost's own binary JSON.

    Args:
        path: Of the file.
        advice: What to do about a damaged one, a sentence.

    Raises:
        ModelError: There is no such file, or it is too large, damaged or cut short.
    """
    check_weights_file(path, "the trees")
    booster = xgb.Booster()
    try:
        booster.load_model(path)
    except (xgb.core.XGBoostError, ValueError, OSError) as error:
        raise ModelError(
            f"{path} cannot be read as an XGBoost model ({first_line(error)}): it is damaged or cut short. "
            f"{advice}"
        ) from error
    return booster
