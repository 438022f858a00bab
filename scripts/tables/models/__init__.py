"""Tables of cost models: how they compare, and what limits them."""
