"""Schedules without measuring: those of known workloads, carried over, and those that a cost model picks."""
