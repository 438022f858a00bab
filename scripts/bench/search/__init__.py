"""Benchmarks of searches and of tuned networks."""
