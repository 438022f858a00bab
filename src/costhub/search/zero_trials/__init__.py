"""Schedules without measuring: those carried over from known workloads, and those that a cost model picks."""
