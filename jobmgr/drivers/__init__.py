"""Drivers carry out the core's instructions, and pull events from the other daemons."""
