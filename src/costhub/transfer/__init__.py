"""Carries a cost model to a new device and searches for fast programs with it."""
