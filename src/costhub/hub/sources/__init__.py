"""Measurements that others have published in git repositories, and how they are brought here."""
