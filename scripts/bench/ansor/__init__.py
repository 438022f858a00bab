"""Benchmarks of logs of Ansor: what they hold, and what of it is imported."""
