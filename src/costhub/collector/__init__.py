"""Measures programs on devices and appends what it sees, failures included, to a data folder."""
