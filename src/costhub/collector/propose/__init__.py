"""Proposes programs to measure."""
