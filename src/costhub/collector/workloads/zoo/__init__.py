"""Networks whose kernels are measured."""
