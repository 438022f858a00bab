"""Benchmarks of what limits models, of what a better one would bring, and of what the shipped recipes give."""
