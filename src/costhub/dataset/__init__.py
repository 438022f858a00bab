"""The schema, shards, features, splits and checks: from measurements to training arrays."""
