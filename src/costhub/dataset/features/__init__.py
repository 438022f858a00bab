"""Feature specs: a model's view of a program, computed once and cached."""
