"""Ways to turn a model for other devices into one for this device, from few measured programs."""
