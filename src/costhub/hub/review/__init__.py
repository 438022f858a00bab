"""The gate: requirements for a model or contribution before a hub accepts it."""
