"""The verbs that send measurements and models to a hub, judge them and show them."""
