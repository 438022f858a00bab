"""What a search will find: the best latency of a workload on a device, predicted without measuring."""
