"""The gate: what a model or a contribution must be before a hub takes it."""
