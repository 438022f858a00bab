"""Holds the networks whose operators `costhub collect --network` measures, as plain torch code."""
