"""Tables of what papers showed and costhub repeats."""
