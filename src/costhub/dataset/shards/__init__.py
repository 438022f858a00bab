"""Sealed Parquet shards and the journal in front of them, which keep measurements from being lost."""
