"""Human-readable output: model cards, plots, tables and tuning reports."""
