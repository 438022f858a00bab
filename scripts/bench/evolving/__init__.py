"""What searches propose, and how much of it."""
