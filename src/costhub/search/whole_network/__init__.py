"""Compiles, runs, compares and times whole networks."""
