"""Reports that people read: of searches and of data folders."""
