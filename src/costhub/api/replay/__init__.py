"""Searches replayed without a device: what is played, and how the scores are shown and exchanged."""
