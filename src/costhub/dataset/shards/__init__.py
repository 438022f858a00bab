"""Parquet shards, sealed, and the journal before them: how measurements are kept and never lost."""
