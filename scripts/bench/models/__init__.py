"""Benchmarks of cost models."""
