"""Human-readable reports of searches and data folders."""
