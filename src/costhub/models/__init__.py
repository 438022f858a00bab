"""Cost models: fit, predict, evaluate, save and load."""
