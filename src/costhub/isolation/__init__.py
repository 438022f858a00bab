"""Child processes that run what may crash, hang or exhaust memory."""
