"""A terminal in a task."""
