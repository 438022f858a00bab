"""Databases of TVM MetaSchedule, old and new: in and out."""
