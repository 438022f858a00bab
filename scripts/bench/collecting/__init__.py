"""Benchmarks of collecting measurements."""
