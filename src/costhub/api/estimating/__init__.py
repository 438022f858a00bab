"""Latencies estimated without measuring: what is asked for, and how the answer is shown."""
