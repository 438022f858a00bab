"""Searches replayed among programs that were all measured before: no device is needed."""
