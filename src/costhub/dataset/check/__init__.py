"""The rules a data folder must keep."""
