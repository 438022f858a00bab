"""Methods of the papers that the defaults do not use, registered by entry points."""
