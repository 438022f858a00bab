"""Benchmarks of transfer to new devices."""
