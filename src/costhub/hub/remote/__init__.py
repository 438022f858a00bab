"""Addresses, and the hubs that they name."""
