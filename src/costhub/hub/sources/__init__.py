"""Measurements that others have published in git repositories, and how to download them."""
