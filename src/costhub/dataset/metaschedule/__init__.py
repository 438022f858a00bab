"""Import and export of TVM MetaSchedule databases, old and new."""
