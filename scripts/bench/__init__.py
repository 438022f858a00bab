"""Benchmarks, each beside its baselines."""
