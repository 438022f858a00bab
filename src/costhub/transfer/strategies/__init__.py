"""Ways to look for programs in a design space: search strategies for MetaSchedule."""
