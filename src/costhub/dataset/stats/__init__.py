"""Statistics of a data folder: coverage, failures, noise, latencies."""
