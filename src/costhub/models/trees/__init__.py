"""Boosted trees."""
