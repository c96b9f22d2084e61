"""Single tasks: goals, actions, retries, and what statuses mean for them."""
