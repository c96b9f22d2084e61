"""Explanations of the scheduler's state."""
