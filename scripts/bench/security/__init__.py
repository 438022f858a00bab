"""Attacks on costhub: hostile files, servers and moments, each with an outcome that is right and many that are not."""
