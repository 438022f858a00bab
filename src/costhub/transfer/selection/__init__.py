"""Ways to choose which programs a new device measures."""
