"""How models learn: losses, batches, streams, progress on disk."""
