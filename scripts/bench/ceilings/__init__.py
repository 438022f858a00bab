"""Benchmarks of what limits models, and of what a better one would bring."""
