"""Compiles programs for a target."""
