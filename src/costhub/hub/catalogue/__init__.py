"""Finds models and datasets by name across hubs."""
