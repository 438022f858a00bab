"""Which workloads and devices to train on, and which to test on."""
