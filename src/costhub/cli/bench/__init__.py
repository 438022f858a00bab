"""Benchmarks of strategies and cost models that need no device."""
