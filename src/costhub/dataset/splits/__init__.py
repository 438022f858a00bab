"""Which workloads and devices to learn from, and which to test on."""
