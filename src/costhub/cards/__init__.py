"""What people read: model cards, plots, tables and tuning reports."""
