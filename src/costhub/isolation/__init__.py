"""Child processes that run code that may crash, hang or exhaust memory."""
