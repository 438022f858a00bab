"""Makes what is shown to others: the card of a model, the site of a hub."""
