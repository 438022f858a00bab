"""How well models rank: metrics, per operator and network, noise, calibration."""
