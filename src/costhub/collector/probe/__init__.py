"""Measures the peak performance of a device, with kernels that TVM compiles for the device's own target."""
