"""Benchmarks, tables and release tools of this repository; not part of the package."""
