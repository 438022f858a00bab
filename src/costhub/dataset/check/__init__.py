"""The rules a data folder must keep, and the check that applies them."""
