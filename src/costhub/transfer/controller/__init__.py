"""Ways to decide when a task has been measured enough, and which one the freed trials go to."""
