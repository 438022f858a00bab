"""The static site of a hub."""
