"""Attacks on what came after 0.1.0: logs, sources, old databases, submissions, tasks, locks, networks and estimates."""
