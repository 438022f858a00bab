"""Measures what a device can do at best, with kernels that TVM compiles for the device's own target."""
