"""A collection by the workers of a Dask cluster: what each one does, and how their rows come together."""
