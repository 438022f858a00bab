"""Strategies that propose programs to a search."""
