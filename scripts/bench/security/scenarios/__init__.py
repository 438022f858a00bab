"""Scenarios of several steps, each run as a process: `python -m scripts.bench.security.scenarios NAME WORDS`."""
