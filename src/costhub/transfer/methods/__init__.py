"""Ways to make a model of other devices one of this device, from few measured programs."""
