"""Identifies devices and describes their targets."""
