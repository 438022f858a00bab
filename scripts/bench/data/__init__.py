"""Benchmarks of datasets, features and hubs."""
