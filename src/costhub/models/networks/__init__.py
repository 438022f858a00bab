"""Networks: what all share, and the architectures."""
