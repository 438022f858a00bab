"""Feature specs: what a model sees of a program, computed once and kept beside the shards."""
