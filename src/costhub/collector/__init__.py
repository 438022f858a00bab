"""Measures programs on devices and appends the results, including failures, to a data folder."""
