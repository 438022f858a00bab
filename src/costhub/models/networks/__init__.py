"""Networks: what all of them share, and the architectures."""
