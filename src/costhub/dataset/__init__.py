"""The schema, shards, features, splits and checks: from measurements to arrays to learn from."""
