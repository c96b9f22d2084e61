"""Control groups: what they limit a task to, where they are, and what a task uses by their account."""
