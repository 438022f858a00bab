"""The recipes of others, to compare with."""
