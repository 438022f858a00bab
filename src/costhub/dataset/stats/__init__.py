"""What a data folder holds, in counts: coverage, failures, noise, latencies."""
