"""Provides read_booster: trees from a file that a stranger may have made."""

from __future__ import annotations

from pathlib import Path

import xgboost as xgb

from costhub.errors import ModelError

MAX_BYTES = 1 << 30
"""A cost model has a few MB; nothing larger is read."""


def read_booster(path: Path, *, advice: str = "Fetch it again.") -> xgb.Booster:
    """Reads XGBoost's own binary JSON.

    Args:
        path: Of the file.
        advice: What to do about a damaged one, a sentence.

    Raises:
        ModelError: There is no such file, or it is too large, damaged or cut short.
    """
    if not path.is_file():
        raise ModelError(f"{path.parent} lacks {path.name}, the trees of the model. Fetch the folder again.")
    if path.stat().st_size > MAX_BYTES:
        raise ModelError(f"{path} has more than {MAX_BYTES} bytes, so it is no cost model.")
    booster = xgb.Booster()
    try:
        booster.load_model(path)
    except (xgb.core.XGBoostError, ValueError, OSError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise ModelError(
            f"{path} cannot be read as an XGBoost model ({first_line}): it is damaged or cut short. {advice}"
        ) from error
    return booster
