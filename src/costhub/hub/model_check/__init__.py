"""Checks model folders from strangers before they are used."""
