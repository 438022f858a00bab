"""Examines MetaSchedule databases without importing them: damage, identity, coverage of a network, clean copies."""
