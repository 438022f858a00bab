"""What is chosen or fitted on validation workloads, and only then tested."""
