"""Searches for fast programs of a workload or a network."""
