"""Renders docs/results as the tables and plots of the README and the docs."""
