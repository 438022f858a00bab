"""Workloads to measure: operators, expressions, and the kernels of networks."""
