"""Settings that every test shares."""

from __future__ import annotations

from hypothesis import settings

# No deadline: a loaded machine is not a failure. Derandomised: a change that passed here passes in CI.
# `pytest --hypothesis-profile=explore` looks for new examples instead.
settings.register_profile("costhub", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("costhub")
