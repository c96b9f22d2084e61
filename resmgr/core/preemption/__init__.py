"""Which running and placed tasks give way to others, and why (behaviour 7.5): pure functions of a view."""
