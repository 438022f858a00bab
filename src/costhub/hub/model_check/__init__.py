"""Checks untrusted model folders before they are used."""
