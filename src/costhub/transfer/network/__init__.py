"""A whole network: compiled with what a search found, compared with torch, and timed."""
