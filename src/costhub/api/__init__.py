"""What Python users call as `costhub.NAME`; the command line parses, calls the same, and prints."""
