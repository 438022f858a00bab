"""Benchmark tasks whose latencies are withheld: programs for everybody, latencies for whoever scores."""
